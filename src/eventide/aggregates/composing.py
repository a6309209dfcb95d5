"""``composite``: several aggregates in one struct column."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import polars as pl

from eventide.aggregates.aggregate import Aggregate, Parts, Source
from eventide.errors import aggregates as errors


@dataclass(frozen=True)
class Composite(Aggregate):
    """A struct with one field per aggregate."""

    fields: tuple[tuple[str, Aggregate], ...]

    word: ClassVar[str] = "composite"

    def __post_init__(self) -> None:
        aggregates = [aggregate for _, aggregate in self.fields]
        # It can do what all of its parts can, and costs what any of them costs.
        for flag in ("mergeable", "invertible"):
            object.__setattr__(self, flag, all(getattr(a, flag) for a in aggregates))
        for flag in ("needs_rows", "python"):
            object.__setattr__(self, flag, any(getattr(a, flag) for a in aggregates))

    def bind(self, source: Source) -> Parts:  # noqa: D102
        parts = {name: aggregate.bind(replace(source, name=f"{source.name}.{name}")) for name, aggregate in self.fields}
        accumulators = [accumulator for part in parts.values() for accumulator in part.accumulators]

        def results(cells: pl.DataFrame) -> pl.Series:
            return pl.DataFrame([part.result_of(cells).alias(name) for name, part in parts.items()]).to_struct()

        return Parts(accumulators, results)

    def __str__(self) -> str:
        return f"composite({', '.join(f'{name}={aggregate}' for name, aggregate in self.fields)})"


def composite(**aggregates: Aggregate) -> Composite:
    """Several aggregates as one struct.

    >>> from eventide.aggregates import max, min, try_out
    >>> try_out({"price": [5, 7, 6]}, range=composite(low=min("price"), high=max("price")))
    {'range': {'low': 5, 'high': 7}}
    """
    if not aggregates:
        raise errors.no_aggregates()
    for name, aggregate in aggregates.items():
        if not isinstance(aggregate, Aggregate):
            raise errors.not_an_aggregate(name, aggregate)
    return Composite(tuple(aggregates.items()))
