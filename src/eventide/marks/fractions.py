"""Numbers with a fraction where whole ones belong: Arrow cuts them off in values of Python, though not in its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from eventide.errors import marks as errors


def column_of(values: Sequence[Any], field: pa.Field) -> pa.Array:
    """Values of Python as a column. Refused if a number would lose a part of itself.

    >>> column_of([1, 2.0, None], pa.field("n", pa.int64())).to_pylist()
    [1, 2, None]
    >>> column_of([1, 2.5], pa.field("n", pa.int64()))
    Traceback (most recent call last):
    ...
    eventide.errors.kinds.PlanError: Column 'n' (int64) takes whole numbers, not 2.5. Round it, or choose another type.
    """
    column = pa.array(values, field.type)
    if _is_whole(field.type):
        for value in _fractions(values, field.type):
            raise errors.fraction(field, value)
    return column


def _fractions(values: Sequence[Any], kind: pa.DataType) -> Iterator[Any]:
    if not pa.types.is_nested(kind):
        kinds = {one for one in set(map(type, values)) if issubclass(one, float | np.floating | Decimal)}
        if kinds:
            yield from (value for value in values if type(value) in kinds and value != value // 1)
        return
    for inner, kind_ in _inside([value for value in values if value is not None], kind):
        if _is_whole(kind_):
            yield from _fractions(inner, kind_)


def _inside(values: Sequence[Any], kind: pa.DataType) -> Iterator[tuple[Sequence[Any], pa.DataType]]:
    """The values within nested ones, by their type."""
    if pa.types.is_struct(kind):
        yield from (([dict(value).get(field.name) for value in values], field.type) for field in kind)
    elif pa.types.is_map(kind):
        pairs = [pair for value in values for pair in (value.items() if isinstance(value, Mapping) else value)]
        yield [key for key, _ in pairs], kind.key_type
        yield [item for _, item in pairs], kind.item_type
    else:
        yield [one for value in values for one in value], kind.value_type


@cache
def _is_whole(kind: pa.DataType) -> bool:
    """Whether a type holds whole numbers, or instants and durations, which are counted in them."""
    if pa.types.is_nested(kind):
        return any(_is_whole(inner) for _, inner in _inside([], kind))
    return bool(pa.types.is_integer(kind) or pa.types.is_temporal(kind))
