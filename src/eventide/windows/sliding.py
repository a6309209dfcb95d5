"""Sliding (hopping) windows: of one size, a new one every so often."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

import polars as pl

from eventide.errors import windows as errors
from eventide.time import duration, format_duration
from eventide.windows.kind import MOST_WINDOWS, Axis, by_offset, floor
from eventide.windows.tumbling import Tumbling


@dataclass(frozen=True)
class Sliding:
    """Windows of ``size`` that start at each multiple of ``every`` (plus ``offset``).

    Windows begin at multiples of ``every`` and end ``size`` later, so the axis is cut at both: at the
    multiples, and ``size mod every`` after them where that is not zero. With ``every > size`` some positions
    lie in no window.
    """

    size: int
    every: int
    offset: int = 0
    axis: Axis = "time"
    by: str | None = field(default=None, repr=False)
    first: int = field(default=1, repr=False)
    shared = True

    @property
    def _cut(self) -> int:
        return self.size % self.every

    @property
    def grid(self) -> tuple[int, int] | None:
        """Width and offset of the grid on which slices lie; None where cuts are uneven, or windows apart."""
        return (self.every, self.offset) if self._cut == 0 and self.every <= self.size else None

    def slice_of(self, at: pl.Expr) -> pl.Expr:
        """The last cut not above ``at``."""
        step = floor(at, self.every, self.offset)
        if self.every > self.size:
            return pl.when(at - step < self.size).then(step)
        if self._cut == 0:
            return step
        return step + pl.when(at - step >= self._cut).then(self._cut).otherwise(0)

    def windows_of(self, slices: pl.Series) -> pl.DataFrame:
        """Every start in ``(slice - size, slice]``."""
        most = -(-self.size // self.every)
        newest = floor(pl.col("slice"), self.every, self.offset)
        return (
            pl.DataFrame({"slice": slices})
            .join(pl.DataFrame({"back": pl.int_range(most, eager=True) * self.every}), how="cross")
            .with_columns(start=newest - pl.col("back"))
            .filter(pl.col("start") + self.size > pl.col("slice"), self.axis == "time" or pl.col("start") >= self.first)
            .select("slice", "start", end=pl.col("start") + self.size)
        )

    def describe(self) -> str:
        """One line for ``explain()``."""
        if self.axis == "rows":
            return f"{self.size} rows, every {self.every} rows{by_offset(self.by, self.first)}"
        shift = f", offset {format_duration(self.offset)}" if self.offset else ""
        return f"sliding {format_duration(self.size)} every {format_duration(self.every)}{shift}"


def sliding(size: str | timedelta, every: str | timedelta, *, offset: str | timedelta = "0s") -> Sliding | Tumbling:
    """Windows of ``size``, a new one ``every`` so often; a row belongs to all windows that hold its time.

    >>> sliding("10 minutes", every="1 minute").describe()
    'sliding 10m every 1m'
    """
    length = duration(size, what="size of sliding()")
    step = duration(every, what="every of sliding()")
    if length // step > MOST_WINDOWS:
        raise errors.too_many_windows("sliding()", length // step, MOST_WINDOWS)
    shift = duration(offset, what="offset of sliding()", zero=True, negative=True) % step
    return Tumbling(length, shift) if length == step else Sliding(length, step, shift)
