"""``approx_distinct`` and ``approx_quantile``: state of a few kilobytes for any number of rows.

``approx_distinct`` uses Apache DataSketches (``pip install 'pyspark-eventide[sketches]'``). A CPC sketch that went
through a union depends only on the set of values, not on their order or division, so a repeated batch gives the same
bytes. ``approx_quantile`` counts values in buckets that are equal for all windows, because counts do not depend on the
division of rows. Sketches that choose which values to keep (t-digest, KLL) do.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from eventide._arguments import is_integer
from eventide._column_refs import Column, masked
from eventide._hints import with_option_hints
from eventide.aggregates.aggregate import Aggregate, Parts, Source
from eventide.aggregates.errors import bad_number, no_retractions, wrong_type
from eventide.aggregates.quantiles import check_q
from eventide.aggregates.sums import numeric
from eventide.aggregates.value_lists import COUNT, Entries, one_zero
from eventide.errors import PlanError
from eventide.kernels.grouping import GROUP, group, in_order


@dataclass(frozen=True)
class ApproxDistinct(Aggregate):
    """About how many distinct values ``column`` has."""

    column: str
    precision: int = 12

    word: ClassVar[str] = "approx_distinct"

    def bind(self, source: Source) -> Parts:
        value = _hashable(source, self.column, self)
        _check_installed(self)
        if source.diff is not None:
            raise no_retractions(self, f"Use ev.count_distinct({self.column!r}).")
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


@with_option_hints
def approx_distinct(column: Column, *, precision: int = 12, where: Column | None = None) -> ApproxDistinct:
    """About how many distinct values a column has; nulls are skipped.

    A sketch of ``2**precision`` counters: 12 is off by 1 % (one standard deviation) and takes up to 2.5 kB.
    Precision is from 4 to 21; each step up halves the variance and doubles the size.

    >>> from eventide.aggregates import try_out
    >>> try_out({"user": ["ann", "bob", None, "ann"]}, users=approx_distinct("user"))
    {'users': 2}
    """
    if not is_integer(precision, at_least=4, at_most=21):
        raise bad_number("approx_distinct", "precision", precision, "a whole number from 4 to 21")
    return ApproxDistinct(masked("approx_distinct", column, where), precision)


@dataclass(frozen=True, eq=False)
class Sketch:
    """A serialized sketch per group. Python code runs once per group, not per row."""

    name: str
    value: pl.Expr
    of_values: Callable[[pl.Series], bytes]
    merged: Callable[[Sequence[bytes]], bytes]
    distinct: bool = False
    """Repeated values do not change the sketch."""
    keeps_rows: bool = False
    empty: object = None

    @property
    def dtype(self) -> pl.DataType:
        return pl.Binary()

    def start(self, rows: pl.DataFrame, groups: int) -> pl.Series:
        values = rows.select(GROUP, value=self.value).drop_nulls()
        if self.distinct:
            values = group(values, [GROUP, "value"], [], ordered=False)
        return self._per_group(values, self.of_values, groups)

    def merge(self, cells: pl.DataFrame, groups: int) -> pl.Series:
        sketches = cells.select(GROUP, value=self.name).drop_nulls()
        return self._per_group(sketches, lambda s: s[0] if len(s) == 1 else self.merged(s.to_list()), groups)

    def _per_group(self, values: pl.DataFrame, sketch: Callable[[pl.Series], bytes], groups: int) -> pl.Series:
        lists = group(values, [GROUP], [pl.col("value").implode()])
        sketches = pl.Series("value", [sketch(of_group) for of_group in lists["value"]], dtype=pl.Binary)
        return in_order(lists.select(GROUP, sketches), groups, missing=pl.lit(None, dtype=pl.Binary))


def _distinct_count(sketch: bytes) -> int:
    from datasketches import cpc_sketch

    estimate: float = cpc_sketch.deserialize(sketch).get_estimate()
    return round(estimate)


def _read(sketches: pl.Series, read: Callable[[bytes], Any], dtype: pl.DataType, missing: Any = None) -> pl.Series:
    return pl.Series([missing if s is None else read(s) for s in sketches.to_list()], dtype=dtype)


def _hashable(source: Source, column: str, aggregate: Aggregate) -> pl.Expr:
    """Return the column as a type that a sketch can hash: integers, floats or text."""
    dtype, value = source.dtype(column, aggregate), pl.col(column)
    if dtype.is_nested() or dtype in (pl.Object, pl.Null):
        needs = f"{aggregate.word} needs plain values"
        raise wrong_type(aggregate, column, dtype, needs, "Take one field of it into a column first.")
    if dtype.is_float():
        return value.cast(pl.Float64)
    small = dtype.is_integer() and dtype not in (pl.UInt64, pl.Int128, pl.UInt128)
    if small or dtype.is_temporal() or dtype == pl.Boolean:
        return value.cast(pl.Int64)
    if dtype == pl.Binary:
        return _not_empty(value.bin.encode("hex"))
    return _not_empty(value.cast(pl.String))


def _not_empty(text: pl.Expr) -> pl.Expr:
    # Sketches skip empty text, but it is a value.
    return pl.when(text == "").then(pl.lit("\0")).otherwise(text)


def _check_installed(aggregate: Aggregate) -> None:
    try:
        import datasketches  # noqa: F401
    except ImportError as missing:
        raise PlanError(
            f"{aggregate} needs a package that is not installed: pip install 'pyspark-eventide[sketches]'"
        ) from missing


_MANTISSA = 52


@dataclass(frozen=True)
class ApproxQuantile(Aggregate):
    """About the value below which the share ``q`` of the values is."""

    column: str
    q: float
    accuracy: float = 0.01

    word: ClassVar[str] = "approx_quantile"

    def bind(self, source: Source) -> Parts:
        numeric(source, self.column, self)
        if source.diff is not None:
            raise no_retractions(self, f"Use ev.quantile({self.column!r}, {self.q}), which keeps the values.")
        name = f"buckets({self.column}, {self._bits})"
        value = one_zero(pl.col(self.column).cast(pl.Float64), pl.Float64())
        entries = Entries(
            name,
            {"bucket": value.map_batches(self._buckets, return_dtype=pl.Int64), "least": value, COUNT: pl.lit(1)},
            {"bucket": pl.Int64(), "least": pl.Float64(), COUNT: pl.Int64()},
            keep=value.is_finite(),
            collapse=["bucket"],
            into=[pl.col("least").min(), pl.col(COUNT).sum()],
            order=["bucket"],
            keeps_rows=False,
        )
        entry = pl.element().struct
        passed = entry.field(COUNT).cum_sum() >= self.q * entry.field(COUNT).sum()
        reached = pl.col(name).list.eval(entry.field("least").filter(passed).head(1))
        return Parts([entries], reached.list.get(0, null_on_oob=True))

    @property
    def _bits(self) -> int:
        """The number of leading mantissa bits that distinguish buckets."""
        return math.ceil(-math.log2(self.accuracy))

    def _buckets(self, values: pl.Series) -> pl.Series:
        bits = values.fill_null(0.0).to_numpy().view(np.int64)
        size = (bits & np.int64(2**63 - 1)) >> (_MANTISSA - self._bits)
        return pl.Series(values.name, np.where(bits < 0, -size - 1, size))


@with_option_hints
def approx_quantile(column: Column, q: float, *, accuracy: float = 0.01, where: Column | None = None) -> ApproxQuantile:
    """About the quantile of a column; nulls, NaN and infinities are skipped.

    The result is a value of the column, at most ``accuracy`` below the exact quantile, relative to it: with 0.01 a
    median of 500 is given as a value from 495 to 500. The state holds a count for each range of values that occurs, at
    most ``2 / accuracy`` for values that differ by a factor of two.

    >>> from eventide.aggregates import try_out
    >>> try_out({"price": list(range(101))}, p95=approx_quantile("price", 0.95))
    {'p95': 95.0}
    """
    check_q("approx_quantile", q)
    if isinstance(accuracy, bool) or not isinstance(accuracy, (int, float)) or not 1e-4 <= accuracy <= 0.5:
        raise bad_number("approx_quantile", "accuracy", accuracy, "between 0.0001 and 0.5")
    return ApproxQuantile(masked("approx_quantile", column, where), q, accuracy)
