"""Metrics of batches: counts of each bucket, their sums for each operator, effects of commands, and their JSON form.

The metrics are read from the progress pages of a batch, or from what Spark observed of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from eventide.metrics import Gap, Metrics, instant_text, metrics_line
from eventide.operators.operator import Output
from eventide.spark import shuffle_pages as page
from eventide.state.operator_state import State
from eventide.time import MAX, MIN, as_datetime, format_instant, instant, known_datetime
from eventide.watermarks import OperatorTracker, WatermarkMetrics

if TYPE_CHECKING:
    from pyspark.sql import Column

    from eventide.spark.shuffle_pages import Stage


PREFIX = "eventide"
"""The prefix of the names of observed metrics."""

REASONS = ("null_time", "future", "duplicate", "out_of_retention", "failed", "bad_row", "no_window")
SUMS = (
    "rows",
    "kept",
    "late",
    *(f"dead_{reason}" for reason in REASONS),
    "refined",
    "unemitted",
    "panes_early",
    "panes_on_time",
    "panes_late",
    "retractions",
    "forgotten_keys",
    "open_windows",
    "in_flight",
    "pages",
    "state_bytes",
    "written",
    "cache_hits",
    "buckets",
)

_TARGETS = {"advance_watermark": "to", "end": "input"}  # the field with a command's target; of others: ``origin``
_MAX_IDLE = 100  # idle origins that are listed
_MAX_GAPS = 12  # runs of missing sequence numbers that are listed
_PLAIN_DETAILS = ("operation", "least_origin", "origin_column", "origins", "idle", "gaps", "forgotten_origins")
_TIMINGS = ("EARLY", "ON_TIME", "LATE")
_PLAIN_COUNTS = ("rows", "kept", "late")
_INSTANTS = ("at", "watermark", "previous_watermark")


@dataclass(frozen=True)
class CommandEffect:
    """A command that a batch applied."""

    id: str
    action: str  # drain, end, skip_gap, retire or advance_watermark
    origin: str | None = None  # the target: an origin, an input or a watermark key
    known: bool = True  # whether the target exists; otherwise the command changed nothing


@dataclass(frozen=True)
class EventTimes:
    """How the rows of a batch are spread over event time: rows in equal bins between two instants."""

    low: datetime
    high: datetime
    rows: tuple[int, ...]


def command_effects(pages: Iterable[Any], before: State) -> list[CommandEffect]:
    """Return the effects of the commands among the pages of a batch, in their order.

    Marks arrive as commands too. They have no id, and no caller waits for them.
    """
    commands = [json.loads(row["detail"]) for row in pages if row["kind"] == page.CONTROL]
    return [command_effect(command, before) for command in commands if "id" in command]


def command_effect(command: dict[str, Any], before: State) -> CommandEffect:
    """Return the effect of one command on a state."""
    target = command.get(_TARGETS.get(command["do"], "origin"))
    exists = has_target(command, before)
    return CommandEffect(command["id"], command["do"], None if target is None else str(target), exists)


def has_target(command: dict[str, Any], state: State) -> bool:
    """Return whether the target of a command exists: an origin, an input or a watermark key."""
    tracker = state.tracker
    match command["do"]:
        case "retire" | "skip_gap":
            return tracker.has_origin(command.get("origin"))
        case "advance_watermark":
            return tracker.accepts(command.get("to"))
        case "end":
            return command.get("input") in (tracker.names if isinstance(tracker, OperatorTracker) else (None,))
    return True


def effects_from_json(content: Iterable[dict[str, Any]]) -> tuple[CommandEffect, ...]:
    """Return effects that ``effects_to_json`` wrote."""
    return tuple(CommandEffect(**effect) for effect in content)


def effects_to_json(effects: Iterable[CommandEffect]) -> list[dict[str, Any]]:
    """Return effects as JSON values."""
    return [asdict(effect) for effect in effects]


def bucket_counts(output: Output, state: State, sizes: dict[str, int]) -> dict[str, int]:
    """Return the counts of one bucket that are not zero. The sums over the buckets are those of the batch."""
    counts = output.counts
    numbers = {
        "rows": counts.rows,
        "kept": counts.kept,
        "late": counts.late,
        **{f"dead_{reason}": number for reason, number in counts.dead.items()},
        "refined": counts.refined,
        "unemitted": counts.unemitted,
        **{f"panes_{timing.lower()}": number for timing, number in counts.panes.items()},
        "retractions": counts.retractions,
        "forgotten_keys": counts.forgotten_keys,
        "open_windows": output.open_panes,
        "in_flight": output.in_flight,
        "buckets": 1,
        **sizes,
    }
    return {name: number for name, number in numbers.items() if number} | {"watermark": state.watermark}


def progress_detail(
    state: State,
    *,
    operation: str,
    before: int = MIN,
    commands: Sequence[CommandEffect] = (),
    event_times: Mapping[str, Any] | None = None,
    late_times: Sequence[tuple[int, int]] = (),
) -> str:
    """Return which origins hold the watermark back and what moved it, as JSON. All places that track it agree.

    ``before`` is the watermark at the start of the batch.
    """
    watermark = state.tracker.metrics()
    facts: dict[str, Any] = {
        "operation": operation,
        "previous_watermark": before,
        "commands": effects_to_json(commands),
        "least_origin": watermark.least_origin,
        "origin_column": watermark.origin_column,
        "origins": watermark.origins,
        "idle_origins": _idle(watermark),
        "idle": len(watermark.idle_origins),
        "gaps": len(watermark.gaps),
        "slowest": watermark.slowest,
        "gap_ranges": _ranges(watermark),
        "renumbered_origins": list(watermark.renumbered_origins),
        "forgotten_origins": watermark.forgotten_origins,
    }
    if event_times is not None:
        facts["event_times"] = event_times
    if late_times:
        facts["late_times"] = list(late_times)
    return json.dumps(facts)


def _idle(watermark: WatermarkMetrics) -> list[str | None]:
    """Return idle origins: first those whose watermarks are listed."""
    listed = {name for name, _ in watermark.slowest}
    return sorted(watermark.idle_origins, key=lambda name: name not in listed)[:_MAX_IDLE]


def _ranges(watermark: WatermarkMetrics) -> list[tuple[str | None, int, int, int]]:
    """Return missing sequence numbers: first those of the origin that holds the watermark back."""
    gaps = sorted(watermark.gaps, key=lambda gap: gap.origin != watermark.least_origin)
    return [(gap.origin, gap.first, gap.last, gap.since) for gap in gaps[:_MAX_GAPS]]


@dataclass(frozen=True, kw_only=True, repr=False)
class BatchMetrics(Metrics):
    """One operator in one batch. ``rows = kept + late + dead``, always. Times are datetimes in UTC.

    >>> from datetime import UTC, datetime
    >>> noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    >>> metrics = BatchMetrics(batch=7, depth=0, at=noon, rows=10, kept=8, late=1, dead={"null_time": 1})
    >>> metrics.balanced
    True
    >>> print(metrics)
    batch 7 at 2026-03-01T12:00:00Z | 10 rows | watermark unknown | no panes | 1 late row | 1 dead (1 null_time)
    """

    batch: int
    depth: int  # of the operator in a chain of pipelines
    at: datetime  # the batch's time
    watermark_key: int = 0
    origin_column: str | None = None  # the column with the names of origins; None with several inputs
    pages: int = 0
    state_bytes: int = 0
    written: int = 0  # bytes of state that the batch wrote
    cache_hits: int = 0
    buckets: int = 0
    missing_files: int = 0  # source files that were deleted before an interrupted batch was repeated
    seconds: float = field(default=0.0, compare=False)  # duration of the batch; 0: unknown
    phases: Mapping[str, float] = field(default_factory=dict, compare=False)  # seconds by phase
    event_times: EventTimes | None = field(default=None, compare=False)  # None: unknown
    late_times: tuple[tuple[datetime, int], ...] = field(default=(), compare=False)  # times of late rows, and how many
    previous_watermark: datetime | None = None  # at the start of the batch
    commands: tuple[CommandEffect, ...] = ()  # of the control stream, applied by the batch
    gap_ranges: tuple[Gap, ...] = ()  # missing sequence numbers, of ``gaps`` runs at most 12

    def __str__(self) -> str:
        where = f"batch {self.batch}" + (f", operator {self.depth}" if self.depth else "")
        return f"{where} at {instant_text(self.at)} | {metrics_line(self)}"

    @property
    def lag(self) -> timedelta | None:
        """How far event time is behind the batch's time."""
        return None if self.watermark is None else self.at - self.watermark

    @property
    def rate(self) -> float | None:
        """Rows per second of this batch; None: its duration is unknown."""
        return self.rows / self.seconds if self.seconds else None


def read_metrics(
    batch: int, pages: Iterable[Any], watermark_keys: Mapping[int, int], *, seconds: float = 0.0
) -> list[BatchMetrics]:
    """Return the metrics of a batch that took ``seconds``, one for each operator, from its progress pages."""
    by_depth: dict[int, list[Any]] = {}
    for row in pages:
        kind, _, depth = row["kind"].partition(".")
        if kind == page.PROGRESS:
            by_depth.setdefault(int(depth), []).append(row)
    return [
        batch_metrics(
            batch,
            depth,
            sum_buckets(
                [(row["now"], row["counts"]) for row in rows],
                next((row["detail"] for row in rows if row["detail"]), None),
            ),
            watermark_keys.get(depth, 0),
            seconds=seconds,
        )
        for depth, rows in sorted(by_depth.items())
    ]


def sum_buckets(buckets: Iterable[tuple[int, Mapping[str, int]]], detail: str | None) -> dict[str, Any]:
    """Return the counts of an operator in a batch, from those of its buckets.

    >>> sum_buckets([(5, {"rows": 2, "watermark": 1}), (5, {"rows": 1, "late": 1, "watermark": 1})], "{}")["rows"]
    3
    """
    rows = list(buckets)
    sums: dict[str, Any] = {name: sum(counts.get(name, 0) for _, counts in rows) for name in SUMS}
    watermark = max((counts["watermark"] for _, counts in rows), default=None)
    return sums | {"watermark": watermark, "detail": detail, "at": max((now for now, _ in rows), default=0)}


def batch_metrics(
    batch: int,
    depth: int,
    observed: Mapping[str, Any],
    watermark_key: int = 0,
    *,
    seconds: float = 0.0,
    phases: Mapping[str, float] | None = None,
) -> BatchMetrics:
    """Return the metrics of one operator from its counts."""
    counts: dict[str, Any] = {name: int(observed.get(name) or 0) for name in SUMS}
    detail = json.loads(observed.get("detail") or "{}")
    watermark = observed.get("watermark")
    dead = {reason: number for reason in REASONS if (number := counts.pop(f"dead_{reason}"))}
    panes = {timing: number for timing in _TIMINGS if (number := counts.pop(f"panes_{timing.lower()}"))}
    return BatchMetrics(
        batch=batch,
        depth=depth,
        at=as_datetime(int(observed.get("at") or 0)),
        dead=dead,
        panes=panes,
        watermark=known_datetime(watermark),
        drained=watermark == MAX,
        watermark_key=watermark_key,
        idle_origins=tuple(detail.get("idle_origins", ())),
        slowest=tuple((name, known_datetime(time)) for name, time in detail.get("slowest", ())),
        renumbered_origins=tuple(detail.get("renumbered_origins", ())),
        seconds=seconds,
        phases=dict(phases or {}),
        event_times=_event_times(detail.get("event_times"), as_datetime),
        late_times=tuple((as_datetime(time), rows) for time, rows in detail.get("late_times", ())),
        previous_watermark=known_datetime(detail.get("previous_watermark")),
        commands=effects_from_json(detail.get("commands", ())),
        gap_ranges=tuple(
            Gap(origin, first, last, as_datetime(since)) for origin, first, last, since in detail.get("gap_ranges", ())
        ),
        **{name: detail[name] for name in _PLAIN_DETAILS if name in detail},
        **counts,
    )


def observation(stage: Stage) -> str:
    """Return the name of an operator's observed metrics in Spark's progress. It is unique.

    >>> from types import SimpleNamespace
    >>> options = SimpleNamespace(watermark_key=7)
    >>> plan = SimpleNamespace(watermark=SimpleNamespace(options=options))
    >>> observation(SimpleNamespace(depth=1, name="4f2a99", plan=plan))
    'eventide.1.7.4f2a99'
    """
    return f"{PREFIX}.{stage.depth}.{stage.plan.watermark.options.watermark_key}.{stage.name[:8]}"


def metrics_in_progress(progress: Mapping[str, Any]) -> list[BatchMetrics]:
    """Return the metrics in a query's progress (``query.lastProgress``), one for each operator."""
    metrics = []
    seconds = (progress.get("durationMs") or {}).get("triggerExecution", 0) / 1000
    for name, counts in (progress.get("observedMetrics") or {}).items():
        if name.startswith(f"{PREFIX}."):
            _, depth, key, _ = name.split(".")
            observed = _as_mapping(counts)
            buckets = [(row["now"], _as_mapping(row["counts"])) for row in map(_as_mapping, observed["buckets"] or ())]
            counts = sum_buckets(buckets, observed["detail"])
            metrics.append(batch_metrics(progress["batchId"], int(depth), counts, int(key), seconds=seconds))
    return sorted(metrics, key=lambda operator: operator.depth)


def observed_columns(depth: int) -> list[Column]:
    """Return the metrics that Spark observes in the pages of an operator.

    The counts of all buckets are one list, which is summed when it is read: an observed metric for each count would
    slow down every batch. A few counts are also metrics of their own, for readers of Spark's progress.
    """
    from pyspark.sql import functions as F  # noqa: N812

    is_progress = F.col("kind") == page.at_depth(page.PROGRESS, depth)

    def count(name: str) -> Column:
        return F.when(is_progress, F.element_at("counts", F.lit(name)))

    return [
        *(F.sum(count(name)).alias(name) for name in _PLAIN_COUNTS),
        F.max(count("watermark")).alias("watermark"),
        F.max(F.when(is_progress, F.col("detail"))).alias("detail"),
        F.collect_list(F.when(is_progress, F.struct("now", "counts"))).alias("buckets"),
    ]


def _as_mapping(row: Any) -> Mapping[str, Any]:
    """Return a row of Spark, or its JSON form, as a mapping. That of Spark Connect has values and a schema.

    >>> _as_mapping({"values": [5], "schema": {"fields": [{"name": "now"}]}})
    {'now': 5}
    """
    mapping: Mapping[str, Any] = row.asDict() if hasattr(row, "asDict") else row
    if mapping.keys() == {"values", "schema"}:
        return {
            field["name"]: value for field, value in zip(mapping["schema"]["fields"], mapping["values"], strict=True)
        }
    return mapping


def to_json(metrics: BatchMetrics) -> dict[str, Any]:
    """Return the metrics as JSON values. Instants are ISO-8601 text, or null if unknown.

    >>> from eventide.time import as_datetime
    >>> at, watermark = as_datetime(5_000_000), as_datetime(2_000_000)
    >>> batch = to_json(BatchMetrics(batch=3, depth=0, at=at, rows=2, kept=2, watermark=watermark))
    >>> batch["watermark"], batch["lag_seconds"], batch["rows"]
    ('1970-01-01T00:00:02Z', 3.0, 2)
    """
    content = asdict(metrics)
    content |= {name: _text(content[name]) for name in _INSTANTS}
    content["lag_seconds"] = None if metrics.lag is None else metrics.lag.total_seconds()
    content["rows_per_second"] = metrics.rate
    if metrics.event_times is not None:
        bounds = {name: _text(getattr(metrics.event_times, name)) for name in ("low", "high")}
        content["event_times"] = bounds | {"rows": list(metrics.event_times.rows)}
    content["late_times"] = [[_text(time), rows] for time, rows in metrics.late_times]
    for gap in content["gap_ranges"]:
        gap["since"] = _text(gap["since"])
    content["slowest"] = [{"origin": name, "watermark": _text(time)} for name, time in metrics.slowest]
    return content


def from_json(content: Mapping[str, Any]) -> BatchMetrics:
    """Return the metrics that ``to_json`` wrote. Fields that are missing have their defaults."""
    names = {field.name for field in fields(BatchMetrics)}
    values = {name: value for name, value in content.items() if name in names}
    values |= {name: _time(content.get(name)) for name in _INSTANTS}
    if values["at"] is None:
        raise KeyError("at")
    values["idle_origins"] = tuple(content["idle_origins"])
    values["renumbered_origins"] = tuple(content.get("renumbered_origins", ()))
    values["slowest"] = tuple((origin["origin"], _time(origin["watermark"])) for origin in content["slowest"])
    values["commands"] = effects_from_json(content.get("commands", ()))
    ranges = content.get("gap_ranges", ())
    values["gap_ranges"] = tuple(Gap(**{**gap, "since": as_datetime(instant(gap["since"]))}) for gap in ranges)
    values["event_times"] = _event_times(content.get("event_times"), lambda text: as_datetime(instant(text)))
    late = content.get("late_times", ())
    values["late_times"] = tuple((as_datetime(instant(time)), int(rows)) for time, rows in late)
    return BatchMetrics(**values)


def _event_times(content: Mapping[str, Any] | None, read: Callable[[Any], datetime]) -> EventTimes | None:
    if content is None:
        return None
    return EventTimes(read(content["low"]), read(content["high"]), tuple(content["rows"]))


def _text(time: datetime | None) -> str | None:
    return None if time is None else format_instant(instant(time))


def _time(text: str | None) -> datetime | None:
    return None if text is None else as_datetime(instant(text))
