"""The progress of a query: a live view on a terminal, a line for each batch elsewhere."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from eventide.demo.live import COLOURS
from eventide.metrics import balance_text, idle_text, instant_text, lag_text
from eventide.operators.operator import Counts

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from eventide.spark.metrics import BatchMetrics


class ProgressLines:
    """Prints a line for each batch that had rows or an effect."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._last: dict[int, BatchMetrics] = {}  # by operator

    def __call__(self, metrics: BatchMetrics) -> None:
        """Print the line of a batch."""
        if had_effect(metrics, self._last.get(metrics.depth)):
            self._write(f"{metrics}{commands_text(metrics)}")
        self._last[metrics.depth] = metrics


def had_effect(metrics: BatchMetrics, before: BatchMetrics | None) -> bool:
    """Return whether a batch is worth a line; ``before`` is the last one of the same operator.

    A watermark that follows the clock moves with every tick. That alone is not worth a line.
    """
    if metrics.rows or metrics.panes or metrics.retractions or metrics.late or metrics.dead or metrics.commands:
        return True
    if before is None:
        return metrics.drained and metrics.depth == 0
    now, then = ((at.drained, at.idle, at.idle_origins) for at in (metrics, before))
    return now != then


def commands_text(metrics: BatchMetrics) -> str:
    """Return the commands that a batch applied, as the end of its line."""
    names = [" ".join(filter(None, (effect.action, effect.origin))) for effect in metrics.commands]
    return f" | applied {', '.join(names)}" if names else ""


_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 24  # of the chart of an origin
_NARROW = 70  # columns of a terminal below which there is no chart
_RECENT = 10.0  # seconds over which the rate is taken
_LAGS = 40  # batches whose lag is shown
_WIDTH_WITHOUT_LAGS = 30  # columns of a terminal that the chart of lags leaves free


class LiveProgress:
    """The live view of a running query. It is called with each batch, and rich draws it. ``clock`` returns seconds.

    Rows, watermark and origins are those of the first operator of a chain, panes those of the last. Rows that an
    operator does not use are counted with the rows that it got, so that they add up.
    """

    def __init__(self, operators: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = operators - 1  # the operator whose panes are the output
        self._start = clock()
        self._arrived: deque[tuple[float, int]] = deque()
        self.last: dict[int, BatchMetrics] = {}  # by operator
        self._counts: dict[int, Counts] = {}  # by operator
        self._drained_at_start = False
        self.drained = False
        self.panes: Counter[str] = Counter()
        self.lags: deque[float] = deque(maxlen=_LAGS)

    def __call__(self, batch: BatchMetrics) -> None:
        """Add a batch."""
        self.drained = self.drained or batch.drained
        if not self.last:
            self._drained_at_start = batch.drained
        self.last[batch.depth] = batch
        counts = Counts(batch.rows, batch.kept, batch.late, dict(batch.dead))
        self._counts[batch.depth] = self._counts.get(batch.depth, Counts()) + counts
        if batch.depth == 0:
            self._note_rows(batch)
        if batch.depth == self._last:
            self.panes.update(batch.panes)
            self.panes.update({"retracted": batch.retractions} if batch.retractions else {})

    @property
    def rows(self) -> int:
        """The rows that the first operator got."""
        return self._counts.get(0, Counts()).rows

    @property
    def late(self) -> int:
        """The late rows of all operators."""
        return sum(counts.late for counts in self._counts.values())

    @property
    def dead(self) -> Mapping[str, int]:
        """The dead letters of all operators, by reason."""
        return sum((Counter(counts.dead) for counts in self._counts.values()), Counter())

    @property
    def rate(self) -> float:
        """Rows per second, over the last seconds."""
        if not self._arrived:
            return 0.0
        since = max(self._start, self._clock() - _RECENT)
        return sum(rows for at, rows in self._arrived if at >= since) / max(self._clock() - since, 1.0)

    @property
    def ended(self) -> bool:
        """Whether rows arrived on a stream that had been drained before."""
        return self._drained_at_start and self.late > 0 and not self._counts.get(0, Counts()).kept

    @property
    def balance(self) -> str:
        """A summary of all rows so far, with a line for each operator of a chain."""
        lines = [self._balance_of(depth) for depth in sorted(self._counts)]
        return "\n".join(lines or [balance_text("window", 0, 0, 0, {})])

    def _balance_of(self, depth: int) -> str:
        counts = self._counts[depth]
        text = balance_text(self.last[depth].operation, counts.rows, counts.kept, counts.late, counts.dead)
        return f"operator {depth}: {text}" if depth else text

    @property
    def batch(self) -> int | None:
        """The number of the last batch."""
        return max((batch.batch for batch in self.last.values()), default=None)

    @property
    def _first(self) -> BatchMetrics:
        return self.last[min(self.last)]

    def _note_rows(self, batch: BatchMetrics) -> None:
        self._arrived.append((self._clock(), batch.rows))
        while self._arrived and self._arrived[0][0] < self._clock() - 2 * _RECENT:
            self._arrived.popleft()
        if batch.lag is not None:
            self.lags.append(batch.lag.total_seconds())

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the view; without bars on a narrow terminal."""
        if not self.last:
            yield Text("Waiting for the first batch …", style="dim")
            return
        facts = Table.grid(padding=(0, 2))
        for name, text in self._facts(options.max_width):
            facts.add_row(Text(name, style="dim"), text)
        yield facts
        yield from origin_lines(self._first, width=_WIDTH if options.max_width >= _NARROW else 0)

    def _facts(self, width: int) -> list[tuple[str, Text]]:
        first = self._first
        lags = list(self.lags)[-max(width - _WIDTH_WITHOUT_LAGS, 1) :]
        shown = [
            ("rows", Text(f"{self.rows:,}   {self.rate:,.0f}/s   batch {self.batch}{_duration_text(first)}")),
            ("watermark", Text(watermark_text(first), style="cyan")),
            ("lag", Text(f"{'unknown' if first.lag is None else lag_text(first.lag)}   {sparkline(lags)}")),
            self._output(),
            ("state", Text(self._state())),
        ]
        for depth, counts in sorted(self._counts.items()):
            if counts.late or counts.dead:
                dead = {f"dead ({reason})": count for reason, count in counts.dead.items()}
                unused = _counts(({"late": counts.late} if counts.late else {}) | dead)
                rows = f"   of {counts.rows:,} rows of operator {depth}" if depth else ""
                shown.append(("not used", unused.append(rows)))
        if first.idle_origins:
            shown.append(("idle", Text(idle_text(first), style="yellow")))
        if first.gaps:
            shown.append(("gaps", Text(f"{first.gaps} runs of sequence numbers are missing", style="yellow")))
        return shown

    def _state(self) -> str:
        """Open windows and bytes of all operators."""
        opened = sum(batch.open_windows for batch in self.last.values())
        size = sum(batch.state_bytes for batch in self.last.values())
        return f"{opened:,} open windows   {size / 1e6:,.1f} MB"

    def _output(self) -> tuple[str, Text]:
        """Panes by timing, or the rows that a join or a processor has emitted."""
        last = self.last[max(self.last)]
        if last.operation != "window":
            name = "rows joined" if last.operation == "join" else "rows emitted"
            return name, Text(f"{sum(self.panes.values()):,}")
        return "panes", _counts({timing.replace("_", " ").lower(): n for timing, n in self.panes.items()})


def _duration_text(batch: BatchMetrics) -> str:
    return f" in {batch.seconds:.2g} s" if batch.seconds else ""


def watermark_text(batch: BatchMetrics) -> str:
    """Return the watermark with its date."""
    if batch.drained:
        return "drained"
    return instant_text(batch.watermark)


def origin_lines(batch: BatchMetrics, width: int = _WIDTH) -> list[Text]:
    """Return a bar for each of the slowest origins, as on the dashboard: the longer, the further behind the clock.

    The scale is that of active origins: nothing waits for idle ones, however far behind they are.

    >>> from eventide.spark.metrics import BatchMetrics
    >>> from eventide.time import as_datetime
    >>> slowest = ("a", as_datetime(1_000_000)), ("b", as_datetime(5_000_000))
    >>> batch = BatchMetrics(batch=0, depth=0, at=as_datetime(9_000_000), slowest=slowest, origins=2)
    >>> for line in origin_lines(batch, width=4):
    ...     print(line)
    a  ████  1970-01-01T00:00:01Z
    b  ██──  1970-01-01T00:00:05Z
    """
    names = [str(name) for name, _ in batch.slowest]
    active = [batch.at - time for name, time in batch.slowest if time is not None and name not in batch.idle_origins]
    most = max([timedelta(0), *active])
    wide = max(map(len, names), default=0)
    lines = []
    for name, (origin, time_) in zip(names, batch.slowest, strict=True):
        idle = origin in batch.idle_origins
        place = "idle" if idle else "" if time_ is None else instant_text(time_)
        share = 0.0 if time_ is None or not most else min(max((batch.at - time_) / most, 0.0), 1.0)
        full = round(share * width)
        bar = "█" * full + "─" * (width - full)
        style = "dim" if idle else "yellow" if origin == batch.least_origin else "green"
        chart: list[str | tuple[str, str]] = [(bar, style), "  "] if width else []
        lines.append(Text.assemble((name.ljust(wide), "" if width else style), "  ", *chart, (place, "dim")))
    if batch.origins > len(batch.slowest) > 0:
        lines.append(Text(f"and {batch.origins - len(batch.slowest):,} that are ahead", style="dim"))
    return lines


def sparkline(values: Sequence[float] | deque[float]) -> str:
    """Return values as small bars.

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
