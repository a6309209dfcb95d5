"""A processor over several streams whose rows differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eventide.plan.builder import Stream
from eventide.plan.combining import On, keyed
from eventide.plan.pipeline import Pipeline
from eventide.plan.plan import Sides
from eventide.plan.process_plan import Late, OnError, process_plan
from eventide.processors import Processor


def process(
    streams: Mapping[str, Stream],
    processor: Processor,
    *,
    output: Mapping[str, Any],
    on: On | None = None,
    name: str | None = None,
    late: Late = "process",
    on_error: OnError = "raise",
) -> Pipeline:
    """A processor over several streams: it gets the rows of each under the stream's name.

    Rows have the columns of their stream; the key also stands under the names of the first stream's.

    >>> import eventide as ev, polars as pl
    >>> class WithCity(ev.Processor):
    ...     state_schema = {"city": pl.String}
    ...
    ...     def process(self, edge, rows):
    ...         if edge == "customers":
    ...             self.state.put(rows)
    ...         else:
    ...             self.emit(rows.select("customer", "price", city=self.state.get(rows)["city"]))
    >>> customers, orders = (ev.stream(time="t", key="customer") for _ in range(2))
    >>> told = {"customer": pl.String, "price": pl.Int64, "city": pl.String}
    >>> enriched = ev.process({"customers": customers, "orders": orders}, WithCity(), output=told)
    >>> rows = {
    ...     "customers": pl.DataFrame({"t": [1], "customer": ["eva"], "city": ["kiel"]}),
    ...     "orders": pl.DataFrame({"t": [2], "customer": ["eva"], "price": [5]}),
    ... }
    >>> enriched.local(rows).panes.row(0)
    ('eva', 5, 'kiel')
    """
    inputs = keyed("process", streams, on)
    first = inputs[0]
    plan = process_plan(
        processor,
        output=output,
        name=name,
        on_error=on_error,
        late=late,
        time=first.time,
        key=first.key,
        watermark=first.watermark,
        inputs=inputs,
        sides=Sides(),
    )
    return Pipeline(plan)
