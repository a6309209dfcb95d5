"""``approx_quantile``: counts of values in buckets that are the same for all windows.

Counts add up to the same however rows are divided. Sketches that choose what to keep (t-digest, KLL) do not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from eventide.aggregates.aggregate import Aggregate, Parts, Source
from eventide.aggregates.entries import COUNT, Entries, one_zero
from eventide.aggregates.quantiles import check_q
from eventide.aggregates.sums import numeric
from eventide.errors import aggregates as errors

_MANTISSA = 52


@dataclass(frozen=True)
class ApproxQuantile(Aggregate):
    """About the value below which the share ``q`` of the values lies."""

    column: str
    q: float
    accuracy: float = 0.01

    word: ClassVar[str] = "approx_quantile"

    def bind(self, source: Source) -> Parts:  # noqa: D102
        numeric(source, self.column, self)
        if source.diff is not None:
            raise errors.no_retractions(self, f"Use ev.quantile({self.column!r}, {self.q}), which keeps the values.")
        name = f"buckets({self.column}, {self._bits})"
        value = one_zero(pl.col(self.column).cast(pl.Float64), pl.Float64())
        kept = Entries(
            name,
            {"bucket": value.map_batches(self._buckets, return_dtype=pl.Int64), "least": value, COUNT: pl.lit(1)},
            {"bucket": pl.Int64(), "least": pl.Float64(), COUNT: pl.Int64()},
            keep=value.is_finite(),
            collapse=["bucket"],
            into=[pl.col("least").min(), pl.col(COUNT).sum()],
            order=["bucket"],
            keeps_rows=False,
        )
        each = pl.element().struct
        passed = each.field(COUNT).cum_sum() >= self.q * each.field(COUNT).sum()
        reached = pl.col(name).list.eval(each.field("least").filter(passed).head(1))
        return Parts([kept], reached.list.get(0, null_on_oob=True))

    @property
    def _bits(self) -> int:
        """So many bits of a float's mantissa tell buckets apart."""
        return math.ceil(-math.log2(self.accuracy))

    def _buckets(self, values: pl.Series) -> pl.Series:
        bits = values.fill_null(0.0).to_numpy().view(np.int64)
        size = (bits & np.int64(2**63 - 1)) >> (_MANTISSA - self._bits)
        return pl.Series(values.name, np.where(bits < 0, -size - 1, size))


def approx_quantile(column: str, q: float, *, accuracy: float = 0.01) -> ApproxQuantile:
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
        raise errors.bad_number("approx_quantile", "accuracy", accuracy, "between 0.0001 and 0.5")
    return ApproxQuantile(column, q, accuracy)
