"""Aggregates over a handful of rows, to see what they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from eventide.aggregates.aggregate import Aggregate
from eventide.aggregates.binding import bind

_TIME = "__time"


def try_out(
    rows: pl.DataFrame | Mapping[str, Sequence[Any]],
    /,
    *,
    time: str | None = None,
    diff: str | None = None,
    **aggregates: Aggregate,
) -> dict[str, Any]:
    """The results of aggregates over all of the rows.

    Rows happen in the order given, unless ``time`` names a column of whole microseconds.

    >>> from eventide.aggregates import count, last
    >>> try_out({"price": [5, 7], "at": [20, 10]}, time="at", n=count(), price=last("price"))
    {'n': 2, 'price': 5}
    """
    frame = pl.DataFrame(rows)
    at = pl.int_range(pl.len(), dtype=pl.Int64) if time is None else pl.col(time).cast(pl.Int64)
    bound = bind(aggregates, frame.schema, time=_TIME, diff=diff)
    started = bound.start(frame.with_columns(at.alias(_TIME)), [])
    cells = started.cells if started.cells.height else bound.empty(1)
    return bound.results(cells).row(0, named=True)
