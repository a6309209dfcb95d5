"""What a processor can do in a bundle, and what it has done when the bundle ends.

The operator that users write themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import polars as pl

from eventide._columns import ROW
from eventide.errors import DataError, did_you_mean
from eventide.processors.declared_columns import fitted
from eventide.processors.errors import not_a_frame
from eventide.processors.keyed_state import KeyedState, Keys, Timers
from eventide.watermarks import Watermark


@dataclass(frozen=True)
class Rejected:
    """Rows of one input that the processor has refused, by their numbers, and why."""

    edge: str
    rows: list[int]
    why: list[str]


@dataclass(frozen=True)
class TimerRequest:
    """Where a row by row processor stands: the time of the row, whether it is late, and the timers that it asks for."""

    time: int
    late: bool
    timers: list[tuple[str, bool, int | None]] = field(default_factory=list)


class Context:
    """A bundle as the processor sees it. Times are microseconds since the epoch, UTC."""

    def __init__(
        self,
        keys: Keys,
        state: KeyedState,
        timers: Timers,
        *,
        output: Mapping[str, pl.DataType],
        now: int,
        watermark: int,
        watermarks: Mapping[str, int],
    ) -> None:
        self.keys = keys
        self.who = keys.who
        self.state = state
        self.timers = timers
        self.output = output
        self.now = now  # the time of the batch
        self.watermark = watermark  # what all inputs have reached
        self.watermarks = watermarks  # what each has reached, by name
        self.emitted: list[pl.DataFrame] = []
        self.rejected: list[Rejected] = []
        self.at = TimerRequest(now, False)
        self._edge: str | None = None
        self._open: set[int] = set()

    def emit(self, rows: pl.DataFrame) -> None:
        """Give rows on: the columns of ``output=``, in any order, and no others."""
        found = fitted(rows, self.output, who=self.who, call="emit()")
        unknown = [name for name in rows.columns if name not in self.output]
        if unknown:
            raise _columns_unknown(self.who, "emit()", unknown, self.output)
        if found.height:
            self.emitted.append(found)

    def dead(self, rows: pl.DataFrame, why: str | Sequence[str]) -> None:
        """Rows of the frame that ``process`` was given become dead letters, with ``why`` as the detail."""
        if self._edge is None:
            raise DataError(f"{self.who}: dead() is for rows that process() was given, and is called inside of it.")
        if not isinstance(rows, pl.DataFrame):
            raise not_a_frame(self.who, "dead()", rows)
        numbers = rows[ROW].to_list() if ROW in rows.columns else []
        if len(numbers) != rows.height or len(set(numbers)) != len(numbers) or not self._open.issuperset(numbers):
            raise DataError(
                f"{self.who}: dead() takes rows of the frame that process() was given, each once. Filter "
                "that frame, and keep "
                "its columns that begin with two underscores."
            )
        self._open -= set(numbers)
        self.rejected.append(Rejected(self._edge, numbers, [why] * len(numbers) if isinstance(why, str) else list(why)))

    def given(self, edge: str | None, rows: int = 0) -> None:
        """These rows of an input are with the processor now; none: it is done with them."""
        self._edge, self._open = edge, set(range(rows))


class Processor:
    """An operator of one's own: what becomes of rows, when time passes and when a timer is due.

    Every bundle works on a fresh copy of the processor, so fields cannot carry anything to the next one: what is to
    be remembered belongs into ``state``. On Spark a call sees the rows of some keys, and all rows of such a key.

    In a bundle ``process`` is called for each input with rows, then ``on_edge_watermark`` for each input whose
    watermark has moved, ``on_timer`` for the timers that are due, and ``on_watermark`` if all inputs have moved.

    >>> import eventide as ev, polars as pl
    >>> class RunningTotal(ev.Processor):
    ...     state_schema = {"total": pl.Int64}
    ...
    ...     def process(self, edge, rows):
    ...         sums = rows.group_by("shop", maintain_order=True).agg(pl.col("price").sum())
    ...         known = self.state.get(sums)["total"].fill_null(0)
    ...         totals = sums.select("shop", total=pl.col("price") + known)
    ...         self.state.put(totals)
    ...         self.emit(totals)
    >>> sales = ev.stream(time="t", key="shop")
    >>> totals = sales.process(RunningTotal(), output={"shop": pl.String, "total": pl.Int64})
    >>> bundles = [pl.DataFrame({"t": [i], "shop": ["kiel"], "price": [5]}) for i in range(3)]
    >>> totals.local(bundles).panes["total"].to_list()
    [5, 10, 15]
    """

    state_schema: ClassVar[Mapping[str, Any]] = {}
    """The columns of the state, beside the key."""

    clock: ClassVar[bool] = False
    """Whether it sets timers on the clock of the batches, so that time must pass even when no rows come."""

    TIME: ClassVar[str] = "__time"
    """The column of the rows that has their event time."""

    LATE: ClassVar[str] = "__late"
    """The column of the rows that says whether they came behind the watermark."""

    context: Context

    def open(self, context: Context) -> None:
        """The bundle begins."""

    def process(self, edge: str, rows: pl.DataFrame) -> None:
        """The rows of one input, with ``TIME`` and ``LATE`` beside their own columns."""
        raise NotImplementedError

    def on_edge_watermark(self, edge: str, watermark: Watermark) -> Sequence[Watermark]:
        """An input has come this far; others may be behind. Gives the watermarks to send on: by default none."""
        return ()

    def on_watermark(self, watermark: Watermark) -> Sequence[Watermark]:
        """All inputs have come this far. Gives the watermarks to send on: by default this one; ``()`` holds it.

        ``watermark.key`` says of which time. In a chain, watermarks of keys that no input has come here as well.
        """
        return (watermark,)

    def on_timer(self, rows: pl.DataFrame) -> None:
        """Timers are due: the key columns, ``timer`` (its name), ``at``, and ``clock`` (whether on the batch clock).

        All come at once, in the order of their times. One that is removed or moved here still stands in ``rows`` if
        it was due as well.
        """

    @property
    def state(self) -> KeyedState:
        """What is remembered of each key: ``get``, ``put`` and ``remove``."""
        return self.context.state

    @property
    def timers(self) -> Timers:
        """The timers of the keys: ``set`` and ``remove``."""
        return self.context.timers

    def emit(self, rows: pl.DataFrame) -> None:
        """Give rows on: the columns of ``output=``."""
        self.context.emit(rows)

    def dead(self, rows: pl.DataFrame, why: str) -> None:
        """Rows that ``process`` was given become dead letters."""
        self.context.dead(rows, why)


def _columns_unknown(processor: str, call: str, unknown: Iterable[str], known: Iterable[str]) -> DataError:
    """What is emitted has columns that were not declared."""
    name = next(iter(unknown))
    return DataError(
        f"{processor}: {call} has a column {name!r} that output= does not name. {did_you_mean(name, known)} "
        "Add it to output=, or leave it out."
    )
