"""The operator that users write themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import polars as pl

from eventide.processors.context import Context
from eventide.processors.keyed import KeyedState
from eventide.processors.timers import Timers
from eventide.watermarks import Watermark


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
