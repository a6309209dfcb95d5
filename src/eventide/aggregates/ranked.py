"""Times and values as one number, so that the first and the last value are a minimum and a maximum.

That is one reduction over a column, and does not depend on the order of rows. It works for values of at most 64 bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

_NULL = 2**64  # the greatest of all values
_STEP = 2 * _NULL
_SIGN = np.uint64(2**63)
_FITS = (
    *(pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32),
    *(pl.Float32, pl.Float64, pl.Boolean, pl.Date, pl.Datetime, pl.Time, pl.Duration),
)


def fits(dtype: pl.DataType) -> bool:
    """Whether values of a type have room beside a time."""
    return dtype.base_type() in _FITS


@dataclass(frozen=True)
class Ranks:
    """A column of event times and values as numbers of 128 bits, in the order of both. Null is the greatest value."""

    name: str
    column: str
    time: str
    dtype: pl.DataType
    ignore_nulls: bool

    @property
    def reads(self) -> Sequence[str]:
        """The columns of rows that are looked at."""
        return (self.column, self.time)

    @property
    def columns(self) -> Sequence[str]:
        """The column of numbers."""
        return (self.name,)

    def adder(self, rows: pl.DataFrame, size: int) -> None:
        """Nothing adds up."""

    def unsure(self) -> None:
        """Each row is computed alone."""

    def of_rows(self, rows: pl.DataFrame, *, apart: bool) -> Mapping[str, pl.Series]:
        """The number of each row; null where nulls are passed over."""
        values = rows[self.column]
        rank = pl.lit(pl.Series(_ranks(values))).cast(pl.Int128)
        if values.null_count():
            null = pl.lit(None if self.ignore_nulls else _NULL, pl.Int128)
            rank = pl.when(pl.col(self.column).is_not_null()).then(rank).otherwise(null)
        number = pl.col(self.time).cast(pl.Int128) * pl.lit(_STEP, pl.Int128) + rank
        return {self.name: rows.select(number.alias(self.name)).to_series()}

    def spread(self, frame: pl.DataFrame) -> bool:
        """Nothing needs to be aligned."""
        return False

    def aligned(self, frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """The frame as it is."""
        return frame

    def values(self, cells: pl.DataFrame) -> pl.Series:
        """The values of the numbers in cells."""
        rank = pl.col(self.name) % pl.lit(_STEP, pl.Int128)
        known = (rank < pl.lit(_NULL, pl.Int128)).fill_null(False)
        zero = pl.lit(int(_SIGN), pl.Int128)  # a value that every type has
        found = cells.select(known=known, rank=pl.when(known).then(rank).otherwise(zero).cast(pl.UInt64))
        values = _values(found["rank"].to_numpy(), self.dtype)
        return pl.select(pl.when(found["known"]).then(values)).to_series()


def _ranks(values: pl.Series) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Numbers in the order of values: NaN is the greatest, and there is one zero."""
    dtype = values.dtype
    if not dtype.is_float():
        return values.cast(pl.Int64).fill_null(0).to_numpy().view(np.uint64) ^ _SIGN
    floats = values.cast(pl.Float64).fill_null(0.0).to_numpy() + 0.0
    bits = np.where(np.isnan(floats), np.nan, floats).view(np.uint64)
    return np.where(bits >= _SIGN, ~bits, bits ^ _SIGN)


def _values(ranks: np.ndarray[tuple[int], np.dtype[np.uint64]], dtype: pl.DataType) -> pl.Series:
    if not dtype.is_float():
        return pl.Series((ranks ^ _SIGN).view(np.int64)).cast(dtype)
    bits = np.where(ranks >= _SIGN, ranks ^ _SIGN, ~ranks)
    return pl.Series(bits.view(np.float64)).cast(dtype)
