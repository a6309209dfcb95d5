"""``approx_distinct``: a few kilobytes of state, whatever the number of rows.

The sketch comes from Apache DataSketches (``pip install 'pyspark-eventide[sketches]'``). A CPC sketch that went through
a union depends on the set of values only, not on their order or on how they were divided, so a repeated batch gives
the same bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl

from eventide.aggregates.aggregate import Aggregate, Parts, Source
from eventide.aggregates.grouping import group
from eventide.aggregates.numbering import GROUP, in_order
from eventide.errors import aggregates as errors


@dataclass(frozen=True)
class ApproxDistinct(Aggregate):
    """About how many distinct values ``column`` has."""

    column: str
    precision: int = 12

    word: ClassVar[str] = "approx_distinct"

    def bind(self, source: Source) -> Parts:  # noqa: D102
        value = _hashable(source, self.column, self)
        _check_installed(self)
        if source.diff is not None:
            raise errors.no_retractions(self, f"Use ev.count_distinct({self.column!r}).")
        name = f"approx_distinct({self.column}, {self.precision})"
        sketch = Sketch(name, value, self._of_values, self._merged, distinct=True)
        return Parts([sketch], lambda cells: _read(cells[name], _distinct_count, pl.Int64(), missing=0))

    def _of_values(self, values: pl.Series) -> bytes:
        from datasketches import cpc_sketch

        sketch = cpc_sketch(self.precision)
        deque(map(sketch.update, values.to_list()), maxlen=0)
        return self._merged([sketch.serialize()])

    def _merged(self, sketches: Sequence[bytes]) -> bytes:
        from datasketches import cpc_sketch, cpc_union

        union = cpc_union(self.precision)
        for sketch in sketches:
            union.update(cpc_sketch.deserialize(sketch))
        return bytes(union.get_result().serialize())


def approx_distinct(column: str, *, precision: int = 12) -> ApproxDistinct:
    """About how many distinct values a column has; nulls are skipped.

    A sketch of ``2**precision`` counters: 12 is off by 1 % (one standard deviation) and takes up to 2.5 kB.
    Precision is from 4 to 21; each step up halves the variance and doubles the size.

    >>> from eventide.aggregates import try_out
    >>> try_out({"user": ["ann", "bob", None, "ann"]}, users=approx_distinct("user"))
    {'users': 2}
    """
    if isinstance(precision, bool) or not isinstance(precision, int) or not 4 <= precision <= 21:
        raise errors.bad_number("approx_distinct", "precision", precision, "a whole number from 4 to 21")
    return ApproxDistinct(column, precision)


@dataclass(frozen=True, eq=False)
class Sketch:
    """A serialised sketch per group. Python runs once per group, not per row."""

    name: str
    value: pl.Expr
    of_values: Callable[[pl.Series], bytes]
    merged: Callable[[Sequence[bytes]], bytes]
    distinct: bool = False
    """Repeated values change nothing, so they need not reach the sketch."""
    keeps_rows: bool = False
    empty: object = None

    @property
    def dtype(self) -> pl.DataType:  # noqa: D102
        return pl.Binary()

    def start(self, rows: pl.DataFrame, groups: int) -> pl.Series:  # noqa: D102
        values = rows.select(GROUP, value=self.value).drop_nulls()
        if self.distinct:
            values = group(values, [GROUP, "value"], [], ordered=False)
        return self._per_group(values, self.of_values, groups)

    def merge(self, cells: pl.DataFrame, groups: int) -> pl.Series:  # noqa: D102
        sketches = cells.select(GROUP, value=self.name).drop_nulls()
        return self._per_group(sketches, lambda s: s[0] if len(s) == 1 else self.merged(s.to_list()), groups)

    def _per_group(self, values: pl.DataFrame, sketch: Callable[[pl.Series], bytes], groups: int) -> pl.Series:
        lists = group(values, [GROUP], [pl.col("value").implode()])
        made = pl.Series("value", [sketch(of_group) for of_group in lists["value"]], dtype=pl.Binary)
        return in_order(lists.select(GROUP, made), groups, missing=pl.lit(None, dtype=pl.Binary))


def _distinct_count(sketch: bytes) -> int:
    from datasketches import cpc_sketch

    estimate: float = cpc_sketch.deserialize(sketch).get_estimate()
    return round(estimate)


def _read(sketches: pl.Series, read: Callable[[bytes], Any], dtype: pl.DataType, missing: Any = None) -> pl.Series:
    return pl.Series([missing if s is None else read(s) for s in sketches.to_list()], dtype=dtype)


def _hashable(source: Source, column: str, aggregate: Aggregate) -> pl.Expr:
    """The column as one of the three things that a sketch can hash: whole numbers, floats, text."""
    dtype, value = source.dtype(column, aggregate), pl.col(column)
    if dtype.is_nested() or dtype in (pl.Object, pl.Null):
        needs = f"{aggregate.word} needs plain values"
        raise errors.wrong_type(aggregate, column, dtype, needs, "Take one field of it into a column first.")
    if dtype.is_float():
        return value.cast(pl.Float64)
    small = dtype.is_integer() and dtype not in (pl.UInt64, pl.Int128, pl.UInt128)
    if small or dtype.is_temporal() or dtype == pl.Boolean:
        return value.cast(pl.Int64)
    if dtype == pl.Binary:
        return _not_empty(value.bin.encode("hex"))
    return _not_empty(value.cast(pl.String))


def _not_empty(text: pl.Expr) -> pl.Expr:
    # Sketches pass over the empty text, but it is a value like any other.
    return pl.when(text == "").then(pl.lit("\0")).otherwise(text)


def _check_installed(aggregate: Aggregate) -> None:
    try:
        import datasketches  # noqa: F401
    except ImportError as missing:
        raise errors.sketches_missing(aggregate) from missing
