"""An accumulation over several inputs, row by row: what a cogroup merges instead of collecting lists."""

from __future__ import annotations

from typing import Any

from eventide.aggregates.aggregate import Aggregate, Parts, Source
from eventide.errors import aggregates as errors

SIDE = "side"
"""The column that says which input a row came on."""


class MergeAggregate(Aggregate):
    """One state for the rows of several inputs of a cogroup. Subclass it, as a row-wise ``Aggregate``.

    Override ``create``, ``accumulate``, ``merge`` and, where the state is not the result, ``result``; ``dtype`` is the
    type of the results. Without ``merge``, rows are kept and added in the order of event time.

    >>> import eventide as ev, polars as pl
    >>> class Balance(MergeAggregate):
    ...     dtype = pl.Int64()
    ...     def create(self):
    ...         return 0
    ...     def accumulate(self, balance, input, row):
    ...         return balance + row["amount"] if input == "paid" else balance - row["price"]
    ...     def merge(self, one, other):
    ...         return one + other
    >>> paid, bought = (ev.stream(time="t", key="user") for _ in range(2))
    >>> both = ev.cogroup({"paid": paid, "bought": bought}, window=ev.tumbling("1 minute"), agg={"balance": Balance()})
    >>> rows = {"paid": pl.DataFrame({"t": [1], "user": ["eva"], "amount": [30]}),
    ...         "bought": pl.DataFrame({"t": [2, 3], "user": ["eva", "eva"], "price": [5, 6]})}
    >>> both.local(rows).panes.select("user", "balance").row(0)
    ('eva', 19)
    """

    def accumulate(self, state: Any, input: str, row: dict[str, Any]) -> Any:
        """The state with one more row, which came on this input."""
        raise errors.unfinished_aggregate(self, "accumulate")

    def add(self, state: Any, row: Any) -> Any:
        """The state with one more row of any input."""
        return self.accumulate(state, row[SIDE], row[row[SIDE]])

    def bind(self, source: Source) -> Parts:
        """As any aggregate, where rows say which input they came on."""
        if SIDE not in source.schema:
            raise errors.only_in_cogroup(self)
        return super().bind(source)
