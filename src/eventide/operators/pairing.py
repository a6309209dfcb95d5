"""What rows of two sides are called when they stand beside each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from eventide.errors import joins as errors
from eventide.plan.plan import Input


@dataclass(frozen=True)
class PairColumns:
    """The columns of a pair: the key once, then the other columns of each side, by their name on that side."""

    key: tuple[str, ...]
    sides: tuple[dict[str, str], dict[str, str]]

    @property
    def names(self) -> list[str]:
        """All of them, in order."""
        left, right = self.sides
        return [*self.key, *left.values(), *right.values()]


def pair_columns(
    inputs: Sequence[Input], schemas: Sequence[Mapping[str, pl.DataType]], *, suffix: str, reserved: Collection[str]
) -> PairColumns:
    """Names for the columns of both sides; a right one whose name the left has gets the suffix."""
    key = inputs[0].key
    left, right = ([n for n in own if n not in one.key] for one, own in zip(inputs, schemas, strict=True))
    taken = {*key, *left}
    columns = PairColumns(key, ({n: n for n in left}, {n: f"{n}{suffix}" if n in taken else n for n in right}))
    for name in columns.names:
        if name in reserved or columns.names.count(name) > 1:
            raise errors.column_taken(name)
    return columns
