"""Tumbling, sliding (hopping) and cumulating windows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

import polars as pl

from eventide._display import described
from eventide._hints import with_option_hints
from eventide.errors import PlanError, shown
from eventide.time import duration, format_duration
from eventide.windows.kind import MOST_WINDOWS, Axis, by_offset, ends_by_time, floor


@described
@dataclass(frozen=True)
class Tumbling:
    """Windows of ``size`` aligned to the epoch plus ``offset``; a slice is the window itself."""

    size: int
    offset: int = 0
    axis: Axis = "time"
    # Windows of an origin's own offsets: the column that holds them, and the first offset there is.
    by: str | None = None
    first: int = 1
    forget_after: int | None = None
    timeout: int | None = None
    shared = False

    @property
    def grid(self) -> tuple[int, int]:
        """Width and offset of the grid of slices."""
        return self.size, self.offset

    def slice_of(self, at: pl.Expr) -> pl.Expr:
        """The start of the window."""
        return floor(at, self.size, self.offset)

    def windows_of(self, slices: pl.Series) -> pl.DataFrame:
        """One window a slice."""
        return pl.DataFrame({"slice": slices, "start": slices, "end": slices + self.size})

    def describe(self) -> str:
        """One line for ``explain()``."""
        if self.axis == "rows":
            return (
                f"every {self.size} rows{by_offset(self.by, self.first)}{ends_by_time(self.timeout, self.forget_after)}"
            )
        shift = f", offset {format_duration(self.offset)}" if self.offset else ""
        return f"tumbling {format_duration(self.size)}{shift}"


@with_option_hints
def tumbling(size: str | timedelta, *, offset: str | timedelta = "0s") -> Tumbling:
    """Windows of one length that follow each other without gap or overlap.

    >>> tumbling("10 minutes").describe()
    'tumbling 10m'
    >>> tumbling("1 day", offset="6 hours").describe()
    'tumbling 1d, offset 6h'
    """
    length = duration(size, what="size of tumbling()")
    return Tumbling(length, duration(offset, what="offset of tumbling()", zero=True, negative=True) % length)


@described
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
    by: str | None = None
    first: int = 1
    forget_after: int | None = None
    timeout: int | None = None
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
            more = by_offset(self.by, self.first) + ends_by_time(self.timeout, self.forget_after)
            return f"{self.size} rows, every {self.every} rows{more}"
        shift = f", offset {format_duration(self.offset)}" if self.offset else ""
        return f"sliding {format_duration(self.size)} every {format_duration(self.every)}{shift}"


@with_option_hints
def sliding(
    size: str | timedelta,
    every: str | timedelta,
    *,
    offset: str | timedelta = "0s",
    gaps: Literal["allowed"] | None = None,
) -> Sliding | Tumbling:
    """Windows of ``size``, a new one ``every`` so often; a row belongs to all windows that hold its time.

    With ``gaps="allowed"``, windows may start less often than they are long. Rows between them are dead letters with
    the reason ``no_window``.

    >>> sliding("10 minutes", every="1 minute").describe()
    'sliding 10m every 1m'
    >>> sliding("1 minute", every="10 minutes", gaps="allowed").describe()
    'sliding 1m every 10m'
    """
    length = duration(size, what="size of sliding()")
    step = duration(every, what="every of sliding()")
    if gaps not in (None, "allowed"):
        raise PlanError(f"sliding(gaps={shown(gaps)}): write gaps='allowed', or leave it out.")
    if step > length and gaps is None:
        raise _windows_with_gaps(length, step)
    if length // step > MOST_WINDOWS:
        raise _too_many_windows("sliding()", length // step, MOST_WINDOWS)
    shift = duration(offset, what="offset of sliding()", zero=True, negative=True) % step
    return Tumbling(length, shift) if length == step else Sliding(length, step, shift)


@described
@dataclass(frozen=True)
class Cumulate:
    """``[s, s + step)``, ``[s, s + 2 step)``, … up to ``[s, s + size)``; a slice is a step."""

    step: int
    size: int
    offset: int = 0
    axis: Axis = "time"
    shared = True

    @property
    def grid(self) -> tuple[int, int]:
        """Width and offset of the grid of slices."""
        return self.step, self.offset

    def slice_of(self, at: pl.Expr) -> pl.Expr:
        """The step that holds ``at``."""
        return floor(at, self.step, self.offset)

    def windows_of(self, slices: pl.Series) -> pl.DataFrame:
        """All windows of the period that end after the slice begins."""
        steps = pl.int_range(1, self.size // self.step + 1, eager=True) * self.step
        return (
            pl.DataFrame({"slice": slices})
            .with_columns(start=floor(pl.col("slice"), self.size, self.offset))
            .join(pl.DataFrame({"length": steps}), how="cross")
            .filter(pl.col("start") + pl.col("length") > pl.col("slice"))
            .select("slice", "start", end=pl.col("start") + pl.col("length"))
        )

    def describe(self) -> str:
        """One line for ``explain()``."""
        shift = f", offset {format_duration(self.offset)}" if self.offset else ""
        return f"cumulating by {format_duration(self.step)} up to {format_duration(self.size)}{shift}"


@with_option_hints
def cumulate(step: str | timedelta, size: str | timedelta, *, offset: str | timedelta = "0s") -> Cumulate:
    """Running totals of a period: windows with one start whose end grows by ``step`` up to ``size``.

    >>> cumulate("1 hour", "1 day").describe()
    'cumulating by 1h up to 1d'
    """
    by = duration(step, what="step of cumulate()")
    length = duration(size, what="size of cumulate()")
    if length % by:
        raise _steps_do_not_fill(by, length)
    if length // by > MOST_WINDOWS:
        raise _too_many_windows("cumulate()", length // by, MOST_WINDOWS)
    return Cumulate(by, length, duration(offset, what="offset of cumulate()", zero=True, negative=True) % length)


def _steps_do_not_fill(step: int, size: int) -> PlanError:
    """The error about a size that is not a multiple of the step."""
    if size < step:
        swapped = f"ev.cumulate({format_duration(size)!r}, {format_duration(step)!r})"
        return PlanError(f"cumulate(step, size): the step is longer than the window. Swap them: {swapped}.")
    return PlanError(
        f"cumulate(): size ({format_duration(size)}) is not a multiple of step ({format_duration(step)}), so the last "
        "window would be cut short. Choose a step that divides the size."
    )


def _windows_with_gaps(size: int, every: int) -> PlanError:
    """The error about windows that start less often than they are long."""
    swapped = f"ev.sliding({format_duration(every)!r}, {format_duration(size)!r})"
    return PlanError(
        f"sliding(size, every): windows of {format_duration(size)} every {format_duration(every)} leave gaps, whose "
        f"rows belong to no window. Swap them: {swapped}. If gaps are meant, add gaps='allowed'."
    )


def _too_many_windows(name: str, count: int, most: int) -> PlanError:
    """The error about an implausible number of windows per row."""
    return PlanError(
        f"{name}: a row would belong to {count} windows, and at most {most} are supported. Start windows less often."
    )
