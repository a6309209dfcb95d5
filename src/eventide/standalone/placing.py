"""Which windows a message belongs to."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from eventide.errors import standalone as errors
from eventide.errors.values import shown
from eventide.operators import columns as c
from eventide.operators.unions import RUN, with_runs
from eventide.standalone import columns as s
from eventide.standalone.stores.windows import NAME
from eventide.time import FIRST, MIN
from eventide.windows import Inherit, Sessions, WindowKind


@dataclass(frozen=True)
class Placed:
    """Messages beside each window that they enter, and those that enter none."""

    rows: pl.DataFrame
    expired: pl.DataFrame
    nowhere: pl.DataFrame


@dataclass(frozen=True)
class FixedWindows:
    """Windows that are where they are. ``first_only``: a message takes part in the first of its windows alone."""

    kind: WindowKind
    first_only: bool

    def placed(self, messages: pl.DataFrame, windows: pl.DataFrame | None) -> Placed:
        """Every window of each message that is not out of retention; ``NEW`` where the message takes part in it."""
        slices = messages.select(self.kind.slice_of(pl.col(c.AT)).alias(c.SLICE)).to_series()
        bounds = self.kind.windows_of(slices.drop_nulls().unique())
        rows = (
            messages.lazy()
            .with_columns(slices)
            .join(bounds.lazy().rename({"slice": c.SLICE, "start": c.START, "end": c.END}), on=c.SLICE)
            .filter(pl.col(c.END) > pl.col(s.FLOOR))
            .sort(s.OFFSET, c.START, c.END)
            .drop(c.SLICE)
        )
        part = pl.col(s.OFFSET).is_first_distinct() if self.first_only else pl.lit(True)
        placed = rows.with_columns(part.alias(s.NEW)).collect(engine="in-memory")
        if placed[s.OFFSET].n_unique() == messages.height:
            return Placed(placed, messages.clear(), messages.clear())
        nowhere = slices.is_null()
        expired = messages.filter(~nowhere).join(placed, on=s.OFFSET, how="anti", maintain_order="left")
        return Placed(placed, expired, messages.filter(nowhere))

    def target(self, together: pl.DataFrame) -> pl.DataFrame:
        """Windows never become other windows."""
        return together

    def needed_from(self, floor: int) -> int:
        """The first position that a window holds which is not out of retention."""
        if floor < FIRST:
            return MIN
        needed: int = self.needed(pl.Series([floor])).item()
        return needed

    def needed(self, floors: pl.Series) -> pl.Series:
        """The same for several floors, each within the axis."""
        asked = pl.DataFrame({c.AT: floors}).with_columns(self.kind.slice_of(pl.col(c.AT)).alias(c.SLICE))
        holding = self.kind.windows_of(asked[c.SLICE].drop_nulls().unique())
        first = holding.group_by(pl.col("slice").alias(c.SLICE)).agg(pl.col("start").min())
        found = asked.join(first, on=c.SLICE, how="left", maintain_order="left")
        return found.select(pl.col("start").fill_null(pl.col(c.AT))).to_series()


@dataclass(frozen=True)
class SessionWindows:
    """Windows that grow: messages of one key that are near each other."""

    kind: Sessions

    def placed(self, messages: pl.DataFrame, windows: pl.DataFrame | None) -> Placed:
        """The stretch that each message covers by itself, unless its whole session is out of retention."""
        bounds = pl.col(c.AT).alias(c.START), (pl.col(c.AT) + self.kind.gap).alias(c.END)
        rows = messages.with_columns(*bounds, pl.lit(True).alias(s.NEW))
        if rows.is_empty() or rows[s.FLOOR].max() == MIN:
            return Placed(rows, messages.clear(), messages.clear())
        known = rows.clear() if windows is None else windows.join(rows, on=s.SESSION, how="semi")
        both = pl.concat([rows.select(NAME), known.select(NAME)])
        reach = self.target(both).select(pl.col(c.END).max().over(RUN)).to_series()[: rows.height]
        live = reach > rows[s.FLOOR]
        return Placed(rows.filter(live), messages.filter(~live), messages.clear())

    def target(self, together: pl.DataFrame) -> pl.DataFrame:
        """What hangs together is one window."""
        runs = with_runs(together, [s.SESSION], self.kind.touching)
        return runs.with_columns(pl.col(c.START).min().over(RUN), pl.col(c.END).max().over(RUN))


def fixed_windows(operator: str, window: object, *, first_only: bool) -> FixedWindows:
    """The windows of an operator that has no sessions."""
    if isinstance(window, (Sessions, Inherit)):
        instead = "ev.tumbling(…), ev.sliding(…), ev.rows(…), or a session operator"
        raise errors.not_for_standalone(operator, window.describe(), instead)
    _check_by(operator, window)
    if not isinstance(window, WindowKind):
        raise errors.not_for_standalone(operator, shown(window), "a window such as ev.tumbling('1 minute')")
    return FixedWindows(window, first_only)


def session_windows(operator: str, window: object) -> SessionWindows:
    """The windows of an operator for sessions."""
    instead = "ev.sessions(gap) with one gap for all, or ev.row_sessions(absent=…)"
    if not isinstance(window, Sessions):
        raise errors.not_for_standalone(operator, shown(window), instead)
    _check_by(operator, window)
    if isinstance(window.gap, str) or window.max_duration is not None:
        raise errors.not_for_standalone(operator, window.describe(), instead)
    return SessionWindows(window)


def _check_by(operator: str, window: object) -> None:
    """Rows are counted as they arrive: a column of offsets would have no effect."""
    column = getattr(window, "by", None)
    if column is not None:
        raise errors.windows_by_offset(operator, column)
    if getattr(window, "forget_after", None) is not None:
        raise errors.keys_not_forgotten(operator)
