"""Processor: the contract of user-written operators, and Context, their view of a bundle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import polars as pl

from eventide._columns import ROW
from eventide._columns import TIME as EVENT_TIME
from eventide.errors import DataError, did_you_mean
from eventide.processors.declared_columns import fitted
from eventide.processors.errors import not_a_frame
from eventide.processors.keyed_state import KeyedState, Keys, Timers
from eventide.watermarks import Watermark


@dataclass(frozen=True)
class RejectedRows:
    """Rows of one input that the processor rejected, by their numbers, and the reasons."""

    edge: str
    rows: list[int]
    why: list[str]


@dataclass(frozen=True)
class TimerRequest:
    """The time of the row that is processed, whether it is late, and the timers that the call sets."""

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
        self.watermark = watermark  # the minimum of all inputs
        self.watermarks = watermarks  # of each input, by name
        self.emitted: list[pl.DataFrame] = []
        self.rejected: list[RejectedRows] = []
        self.at = TimerRequest(now, False)
        self._edge: str | None = None
        self._open: set[int] = set()

    def emit(self, rows: pl.DataFrame) -> None:
        """Emit rows with the columns of ``output=``, in any order, and no others."""
        declared = fitted(rows, self.output, who=self.who, call="emit()")
        unknown = [name for name in rows.columns if name not in self.output]
        if unknown:
            raise _columns_unknown(self.who, unknown, self.output)
        if declared.height:
            self.emitted.append(declared)

    def dead(self, rows: pl.DataFrame, why: str | Sequence[str]) -> None:
        """Turn rows of the frame passed to ``process`` into dead letters, with ``why`` as the detail."""
        if self._edge is None:
            raise DataError(
                f"{self.who}: dead() takes rows of the frame passed to process(), and can be called only there."
            )
        if not isinstance(rows, pl.DataFrame):
            raise not_a_frame(self.who, "dead()", rows)
        numbers = rows[ROW].to_list() if ROW in rows.columns else []
        if len(numbers) != rows.height or len(set(numbers)) != len(numbers) or not self._open.issuperset(numbers):
            raise DataError(
                f"{self.who}: dead() takes rows of the frame passed to process(), each once. Filter that "
                "frame, and keep its columns that begin with two underscores."
            )
        self._open -= set(numbers)
        self.rejected.append(
            RejectedRows(self._edge, numbers, [why] * len(numbers) if isinstance(why, str) else list(why))
        )

    def set_rows(self, edge: str | None, rows: int = 0) -> None:
        """Set the input and the number of the rows that ``dead`` accepts; None after the call."""
        self._edge, self._open = edge, set(range(rows))


class Processor:
    """A user-written operator: it processes rows, watermarks and timers.

    Each bundle uses a fresh copy of the processor, so values of fields do not reach the next bundle: store them in
    ``state``. On Spark a call gets the rows of some keys, and all rows of such a key.

    In a bundle, ``process`` is called for each input with rows, then ``on_edge_watermark`` for each input whose
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
    """The columns of the state, in addition to the key."""

    clock: ClassVar[bool] = False
    """Whether it sets timers on the batch clock, so that batches are needed even when no rows arrive."""

    retractions: ClassVar[bool] = False
    """Whether it handles panes that an earlier pipeline retracts: rows with ``diff = -1``."""

    TIME: ClassVar[str] = EVENT_TIME
    """The column of the rows that has their event time."""

    LATE: ClassVar[str] = "__late"
    """The column that marks late rows."""

    context: Context

    def open(self, context: Context) -> None:
        """Called at the start of a bundle."""

    def process(self, edge: str, rows: pl.DataFrame) -> None:
        """Process the rows of one input, which have the columns ``TIME`` and ``LATE`` in addition."""
        raise NotImplementedError

    def on_edge_watermark(self, edge: str, watermark: Watermark) -> Sequence[Watermark]:
        """Called when the watermark of an input advances. Returns the watermarks to forward: by default none."""
        return ()

    def on_watermark(self, watermark: Watermark) -> Sequence[Watermark]:
        """Called when the watermark of all inputs advances. Returns the watermarks to forward: by default this one.

        ``()`` holds it back. In a chain, watermarks with keys that no input uses arrive here as well.
        """
        return (watermark,)

    def on_timer(self, rows: pl.DataFrame) -> None:
        """Called with the due timers in the order of their times: key columns, ``timer`` (the name), ``at``, ``clock``.

        ``clock``: whether a timer is on the batch clock. ``rows`` also has the timers that this call removes.
        """

    @property
    def state(self) -> KeyedState:
        """The state of each key: ``get``, ``put`` and ``remove``."""
        return self.context.state

    @property
    def timers(self) -> Timers:
        """The timers of the keys: ``set`` and ``remove``."""
        return self.context.timers

    def emit(self, rows: pl.DataFrame) -> None:
        """Emit rows with the columns of ``output=``."""
        self.context.emit(rows)

    def dead(self, rows: pl.DataFrame, why: str) -> None:
        """Turn rows of the frame passed to ``process`` into dead letters."""
        self.context.dead(rows, why)


def _columns_unknown(processor: str, unknown: Iterable[str], known: Iterable[str]) -> DataError:
    """Return the error about emitted columns that were not declared."""
    name = next(iter(unknown))
    return DataError(
        f"{processor}: emit() has a column {name!r} that output= does not name. {did_you_mean(name, known)} "
        "Add it to output=, or drop it."
    )
