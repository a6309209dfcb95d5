"""The progress of a query, drawn again and again: rows, rate, lag, watermarks, output, late rows and dead letters."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from eventide.demo.telling import COLOURS
from eventide.spark.batch_report import balance_text, idle_text, lag_text
from eventide.time import MAX, MIN, format_instant

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from eventide.spark.metrics import BatchMetrics

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 24  # of the chart of an origin
_NARROW = 70  # columns of a terminal below which there is no chart
_RECENT = 10.0  # seconds over which the rate is taken
_LAGS = 40  # batches whose lag is shown


class Progress:
    """The progress of a running query. Call it with each batch; rich draws it. ``clock`` gives seconds.

    Rows, watermark and origins are those of the first operator of a chain, panes those of the last.
    """

    def __init__(self, operators: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = operators - 1  # whose panes are the query's
        self._began = clock()
        self._arrived: deque[tuple[float, int]] = deque()
        self.last: dict[int, BatchMetrics] = {}  # by operator
        self.rows = self.kept = 0
        self._begun_drained = False
        self.drained = False
        self.late = 0
        self.dead: Counter[str] = Counter()  # by reason
        self.panes: Counter[str] = Counter()
        self.lags: deque[float] = deque(maxlen=_LAGS)

    def __call__(self, one: BatchMetrics) -> None:
        """Add a batch."""
        self.drained = self.drained or one.drained
        if not self.last:
            self._begun_drained = one.drained
        self.last[one.depth] = one
        if one.depth == 0:
            self._count_rows(one)
        self.late += one.late
        self.dead.update(one.dead)
        if one.depth == self._last:
            self.panes.update(one.panes)
            self.panes.update({"retracted": one.retractions} if one.retractions else {})

    @property
    def rate(self) -> float:
        """Rows per second, over the last seconds."""
        if not self._arrived:
            return 0.0
        since = max(self._began, self._clock() - _RECENT)
        return sum(rows for at, rows in self._arrived if at >= since) / max(self._clock() - since, 1.0)

    @property
    def ended(self) -> bool:
        """Whether rows arrived on a stream that had been drained before."""
        return self._begun_drained and self.late > 0 and not self.kept

    @property
    def balance(self) -> str:
        """The account of all rows so far."""
        operation = self._first.operation if self.last else "window"
        return balance_text(operation, self.rows, self.kept, self.late, self.dead)

    @property
    def batch(self) -> int | None:
        """The number of the last batch."""
        return max((one.batch for one in self.last.values()), default=None)

    @property
    def _first(self) -> BatchMetrics:
        return self.last[min(self.last)]

    def _count_rows(self, one: BatchMetrics) -> None:
        self.rows += one.rows
        self.kept += one.kept
        self._arrived.append((self._clock(), one.rows))
        while self._arrived and self._arrived[0][0] < self._clock() - 2 * _RECENT:
            self._arrived.popleft()
        if one.lag is not None:
            self.lags.append(one.lag.total_seconds())

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The picture of it; a narrow one is without bars."""
        if not self.last:
            yield Text("Waiting for the first batch …", style="dim")
            return
        facts = Table.grid(padding=(0, 2))
        for name, text in self._facts():
            facts.add_row(Text(name, style="dim"), text)
        yield facts
        yield from origin_lines(self._first, width=_WIDTH if options.max_width >= _NARROW else 0)

    def _facts(self) -> list[tuple[str, Text]]:
        first = self._first
        shown = [
            ("rows", Text(f"{self.rows:,}   {self.rate:,.0f}/s   batch {self.batch}")),
            ("watermark", Text(watermark_text(first), style="cyan")),
            ("lag", Text(f"{lag_text(first) if first.lag else 'unknown'}   {sparkline(self.lags)}")),
            self._output(),
        ]
        if self.late or self.dead:
            dead = {f"dead ({reason})": count for reason, count in self.dead.items()}
            shown.append(("not used", _counts(({"late": self.late} if self.late else {}) | dead)))
        if first.idle_origins:
            shown.append(("idle", Text(idle_text(first), style="yellow")))
        if first.gaps:
            shown.append(("gaps", Text(f"{first.gaps} runs of sequence numbers are missing", style="yellow")))
        return shown

    def _output(self) -> tuple[str, Text]:
        """Panes by timing, or the rows that a join or a processor has emitted."""
        last = self.last[max(self.last)]
        if last.operation != "window":
            name = "rows joined" if last.operation == "join" else "rows emitted"
            return name, Text(f"{sum(self.panes.values()):,}")
        return "panes", _counts({timing.replace("_", " ").lower(): n for timing, n in self.panes.items()})


def watermark_text(one: BatchMetrics) -> str:
    """Return the watermark with its date."""
    if one.drained:
        return "drained"
    return "unknown" if one.watermark is None else format_instant(one.watermark)


def origin_lines(one: BatchMetrics, width: int = _WIDTH) -> list[Text]:
    """A bar for each of the slowest origins: empty for the one that is least far, full for the one that is furthest.

    >>> from eventide.spark.metrics import BatchMetrics
    >>> one = BatchMetrics(batch=0, depth=0, at=9_000_000, slowest=(("a", 1_000_000), ("b", 3_000_000)), origins=2)
    >>> for line in origin_lines(one, width=4):
    ...     print(line)
    a  ────  1970-01-01T00:00:01Z
    b  ████  1970-01-01T00:00:03Z
    """
    names = [str(name) for name, _ in one.slowest]
    known = [time for _, time in one.slowest if time is not None and MIN < time < MAX]
    least, most = min(known, default=0), max(known, default=0)
    wide = max(map(len, names), default=0)
    lines = []
    for name, (own, time_) in zip(names, one.slowest, strict=True):
        idle = own in one.idle_origins
        place = "idle" if idle else "" if time_ is None or time_ in (MIN, MAX) else format_instant(time_)
        share = 0.0 if most == least or time_ is None else (min(max(time_, least), most) - least) / (most - least)
        full = round(share * width) if most > least else width
        bar = "█" * full + "─" * (width - full)
        style = "dim" if idle else "yellow" if own == one.least_origin else "green"
        chart: list[str | tuple[str, str]] = [(bar, style), "  "] if width else []
        lines.append(Text.assemble((name.ljust(wide), "" if width else style), "  ", *chart, (place, "dim")))
    if one.origins > len(one.slowest) > 0:
        lines.append(Text(f"and {one.origins - len(one.slowest):,} that are ahead", style="dim"))
    return lines


def sparkline(values: Sequence[float] | deque[float]) -> str:
    """Values as small bars.

    >>> sparkline([1, 2, 8])
    '▁▂█'
    """
    if not values:
        return ""
    least, most = min(values), max(values)
    span = most - least or 1.0
    return "".join(_BARS[round((value - least) / span * (len(_BARS) - 1))] for value in values)


def _counts(counts: Mapping[str, int]) -> Text:
    text = Text()
    for place, (name, count) in enumerate(counts.items()):
        style = COLOURS.get(name.replace(" ", "_").upper(), "")
        text.append("   " if place else "").append(f"{count:,} {name}", style=style)
    return text if counts else Text("none yet", style="dim")
