"""Metrics of a run, the same on every host: counts of rows, the watermark, their text, and the late-row warning."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

from eventide._display import facts_html, short_repr
from eventide.operators.operator import Counts, is_balanced
from eventide.time import MAX, MIN, as_datetime, format_duration, format_instant, instant, known_datetime
from eventide.watermarks import WatermarkMetrics

Operation: TypeAlias = Literal["window", "join", "processor"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Metrics:
    """Counts of rows and the watermark. ``rows = kept + late + dead`` always holds.

    Times are datetimes in UTC.

    >>> metrics = Metrics(rows=10, kept=8, late=1, dead={"null_time": 1})
    >>> metrics.balanced
    True
    >>> metrics
    Metrics(rows=10, kept=8, late=1, dead={'null_time': 1})
    >>> print(metrics)
    10 rows | watermark unknown | no panes | 1 late row | 1 dead (1 null_time)
    """

    rows: int = 0
    kept: int = 0  # in a window, in the join, or with the processor
    late: int = 0
    dead: Mapping[str, int] = field(default_factory=dict)  # by reason
    refined: int = 0  # of those kept: behind the watermark, but within the lateness
    unemitted: int = 0  # of those kept: arrived after their trigger had finished (only with may_lose_data)
    panes: Mapping[str, int] = field(default_factory=dict)  # by timing
    retractions: int = 0
    watermark: datetime | None = None  # None: nothing is known yet, or the stream is drained
    drained: bool = False
    least_origin: str | None = None  # the one that holds the watermark back
    origins: int = 0
    idle_origins: tuple[str | None, ...] = ()  # of a batch of a query, at most 100
    idle: int = 0  # how many origins are idle
    slowest: tuple[tuple[str | None, datetime | None], ...] = ()  # origins that are least far, at most 12
    renumbered_origins: tuple[str | None, ...] = ()  # sent a number again with a later time; at most 12
    forgotten_origins: int = 0  # idle for forget_after=
    forgotten_keys: int = 0
    gaps: int = 0  # runs of sequence numbers that are missing
    open_windows: int = 0
    in_flight: int = 0  # rows whose calls span bundles, not counted in ``rows`` yet
    operation: Operation = "window"

    def __post_init__(self) -> None:
        object.__setattr__(self, "idle", max(self.idle, len(self.idle_origins)))

    def __str__(self) -> str:
        return metrics_line(self)

    def __repr__(self) -> str:
        return short_repr(self)

    def _repr_html_(self) -> str:
        return facts_html(type(self).__name__, facts(self))

    @property
    def balanced(self) -> bool:
        """Whether every row is accounted for."""
        return is_balanced(self.rows, self.kept, self.late, self.dead)


@dataclass(frozen=True)
class Gap:
    """Sequence numbers of an origin that are missing although later ones were seen, and since when."""

    origin: str | None
    first: int
    last: int
    since: datetime


def metrics_of(counts: Counts, progress: WatermarkMetrics | None, **others: Any) -> Metrics:
    """The metrics of a run in this process: its counts, its watermark, and other fields."""
    metrics = Metrics(**{field.name: getattr(counts, field.name) for field in fields(counts)}, **others)
    if progress is None:
        return metrics
    return replace(
        metrics,
        watermark=known_datetime(progress.watermark),
        drained=progress.watermark == MAX,
        least_origin=progress.least_origin,
        origins=progress.origins,
        idle_origins=progress.idle_origins,
        slowest=tuple((name, known_datetime(time)) for name, time in progress.slowest),
        renumbered_origins=progress.renumbered_origins,
        forgotten_origins=progress.forgotten_origins,
        gaps=len(progress.gaps),
    )


def gaps_of(progress: WatermarkMetrics | None) -> tuple[Gap, ...]:
    """The runs of sequence numbers that the watermark waits for."""
    gaps = () if progress is None else progress.gaps
    return tuple(Gap(gap.origin, gap.first, gap.last, as_datetime(gap.since)) for gap in gaps)


_ZEROS = re.compile(r"(\.\d*?)0+Z$")
_MINUTE, _SECOND = timedelta(minutes=1), timedelta(seconds=1)
_KEPT = {"window": "in windows", "join": "in the join", "processor": "processed"}
_EMITTED = {"join": "joined", "processor": "emitted"}
_IDLE_SHOWN = 8


def metrics_line(metrics: Metrics) -> str:
    """Return rows and their rate, watermark and lag, output, late, dead, slowest origin, in one line."""
    return " | ".join(_parts(metrics))


def facts(metrics: Metrics) -> list[tuple[str, str]]:
    """Return the same as names and texts, for a table."""
    entries = [
        ("rows", balance_text(metrics.operation, metrics.rows, metrics.kept, metrics.late, metrics.dead)),
        ("watermark", watermark_text(metrics)),
        ("output", emitted_text(metrics)),
        ("refined", counted(metrics.refined, "late row") + " within the lateness" if metrics.refined else ""),
        ("not emitted", counted(metrics.unemitted, "row") if metrics.unemitted else ""),
        ("slowest origin", slowest_origin(metrics) or ""),
        ("idle", idle_text(metrics)),
        ("gaps", f"{counted(metrics.gaps, 'run')} of missing sequence numbers" if metrics.gaps else ""),
        ("forgot", forgotten_text(metrics)),
        ("open windows", f"{metrics.open_windows:,}" if metrics.open_windows else ""),
        ("in flight", counted(metrics.in_flight, "row") if metrics.in_flight else ""),
    ]
    return [(name, text) for name, text in entries if text]


def _parts(metrics: Metrics) -> list[str]:
    panes = "panes " if metrics.operation == "window" and (metrics.panes or metrics.retractions) else ""
    parts = [rows_text(metrics), f"watermark {watermark_text(metrics)}", f"{panes}{emitted_text(metrics)}"]
    parts += [counted(metrics.late, "late row"), dead_text(metrics.dead)]
    if (slowest := slowest_origin(metrics)) is not None:
        parts.append(f"slowest origin {slowest}")
    if metrics.idle_origins:
        parts.append(f"idle {idle_text(metrics)}")
    if metrics.gaps:
        parts.append(f"{counted(metrics.gaps, 'gap')} in sequences")
    if metrics.renumbered_origins:
        parts.append(f"numbering restarted by {', '.join(map(str, metrics.renumbered_origins))}")
    if forgotten := forgotten_text(metrics):
        parts.append(f"forgot {forgotten}")
    return parts


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def rows_text(metrics: Metrics) -> str:
    """Return the rows, with the rate of a batch where it is known."""
    rate = getattr(metrics, "rate", None)
    per_second = "" if rate is None or not metrics.rows else f" ({rate:,.0f} rows/s)"
    return f"{counted(metrics.rows, 'row')}{per_second}"


def watermark_text(metrics: Metrics) -> str:
    """Return the watermark with its date, and with its lag behind the time of a batch."""
    if metrics.drained:
        return "drained"
    if metrics.watermark is None:
        return "unknown"
    lag = getattr(metrics, "lag", None)
    return instant_text(metrics.watermark) + ("" if lag is None else f" ({lag_text(lag)})")


def instant_text(time: datetime | None) -> str:
    """Return an instant with no more digits than it needs.

    >>> from eventide.time import as_datetime
    >>> instant_text(as_datetime(1_248_000)), instant_text(None)
    ('1970-01-01T00:00:01.248Z', 'unknown')
    """
    return "unknown" if time is None else _ZEROS.sub(r"\1Z", format_instant(instant(time)))


def lag_text(lag: timedelta) -> str:
    """Return how far the watermark is behind the batch's time.

    >>> lag_text(timedelta(seconds=3.12)), lag_text(timedelta(seconds=-1))
    ('3.1 s behind', '1.0 s ahead')
    >>> lag_text(timedelta(hours=2, seconds=-1.5))
    '1h 59m 58s behind'
    """
    size = abs(lag)
    text = f"{size / _SECOND:.1f} s" if size < _MINUTE else format_duration(size // _SECOND * 1_000_000)
    return f"{text} {'ahead' if lag < timedelta(0) else 'behind'}"


def emitted_text(metrics: Metrics) -> str:
    """Return what the batch emitted: panes by timing, or the rows of a join or a processor.

    >>> from eventide.metrics import Metrics
    >>> emitted_text(Metrics(panes={"EARLY": 3, "ON_TIME": 1}, retractions=2))
    '3 early, 1 on time, 2 retracted'
    >>> emitted_text(Metrics(operation="join", panes={"ON_TIME": 1200}))
    '1,200 rows joined'
    """
    if metrics.operation in _EMITTED:
        return f"{counted(sum(metrics.panes.values()), 'row')} {_EMITTED[metrics.operation]}"
    counts = {timing.replace("_", " ").lower(): number for timing, number in metrics.panes.items()}
    if metrics.retractions:
        counts["retracted"] = metrics.retractions
    return ", ".join(f"{number:,} {name}" for name, number in counts.items()) if counts else "no panes"


def dead_text(dead: Mapping[str, int]) -> str:
    """Return the number of dead letters and their reasons.

    >>> dead_text({"null_time": 2, "future": 1})
    '3 dead (2 null_time, 1 future)'
    """
    reasons = ", ".join(f"{number:,} {reason}" for reason, number in dead.items())
    return f"{sum(dead.values()):,} dead" + (f" ({reasons})" if reasons else "")


def slowest_origin(metrics: Metrics) -> str | None:
    """Return the origin that holds the watermark back; None where the watermark has no origins or does not wait."""
    if metrics.drained or not metrics.slowest or metrics.least_origin is None:
        return None
    return str(metrics.least_origin)


def idle_text(metrics: Metrics) -> str:
    """Return the names of idle origins, not too many."""
    shown = ", ".join(map(str, metrics.idle_origins[:_IDLE_SHOWN]))
    more = metrics.idle - len(metrics.idle_origins[:_IDLE_SHOWN])
    return f"{shown} and {more:,} more" if more > 0 else shown


def forgotten_text(metrics: Metrics) -> str:
    """Return how many idle origins and keys the batch forgot.

    >>> from eventide.metrics import Metrics
    >>> forgotten_text(Metrics(forgotten_origins=2, forgotten_keys=1))
    '2 origins, 1 key'
    """
    counts = (metrics.forgotten_origins, "origin"), (metrics.forgotten_keys, "key")
    return ", ".join(counted(number, noun) for number, noun in counts if number)


def balance_text(operation: str, rows: int, kept: int, late: int, dead: Mapping[str, int]) -> str:
    """Return the account of all rows.

    >>> balance_text("processor", 10, 8, 1, {"failed": 1})
    '10 rows = 8 processed + 1 late + 1 dead (1 failed)'
    """
    return f"{counted(rows, 'row')} = {kept:,} {_KEPT[operation]} + {late:,} late + {dead_text(dead)}"


_PAUSE = 60_000_000  # microseconds of batch time between two warnings of a query

_ADVICE = (
    "Late rows go to the late output. If rows arrive later than expected, use a larger delay (ev.bounded_delay) or "
    "allowed_lateness of .emit(), with a new checkpoint. If a wrong clock moved the watermark ahead, lower "
    "max_future_skew and then the watermark: eventide repair CHECKPOINT --watermark INSTANT."
)


class LateWarning:
    """Decides for one query which of its batches deserve a warning.

    >>> warning = LateWarning()
    >>> warning.message(rows=10, late=5, watermark=0, now=0) is None
    True
    >>> print(warning.message(rows=10, late=6, watermark=0, now=0))
    6 of 10 rows of a batch are late: the watermark is 1970-01-01T00:00:00Z. Late rows go to the late output...
    >>> warning.message(rows=10, late=10, watermark=0, now=59_999_999) is None
    True
    """

    def __init__(self) -> None:
        self._warned_at: int | None = None

    def message(self, *, rows: int, late: int, watermark: int | None, now: int, operator: int = 0) -> str | None:
        """The warning about a batch in which more than half of the rows are late, at most once a minute.

        ``now`` is the batch's time. ``operator`` is the place of the pipeline in a chain.
        """
        if 2 * late <= rows or (self._warned_at is not None and now - self._warned_at < _PAUSE):
            return None
        self._warned_at = now
        where = f" of pipeline {operator + 1} of the chain" if operator else ""
        subject = f"{late:,} of {rows:,} rows of a batch{where} are late"
        if watermark == MAX:
            return f"{subject}: the stream was drained and has ended. Use another checkpoint."
        known = watermark is not None and watermark > MIN
        reason = f"the watermark is {format_instant(watermark or 0)}" if known else "no watermark is known"
        return f"{subject}: {reason}. {_ADVICE}"
