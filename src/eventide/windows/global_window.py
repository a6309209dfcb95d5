"""The global window, and windows that a chained aggregate inherits from the panes it receives."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from eventide._display import described
from eventide._hints import with_option_hints
from eventide.time import MAX, MIN
from eventide.windows.kind import Axis


@described
@dataclass(frozen=True)
class GlobalWindow:
    """One window that never ends by itself: it completes when the stream is drained."""

    axis: Axis = "time"
    shared = False

    def slice_of(self, at: pl.Expr) -> pl.Expr:
        """The same slice for all; null times stay null."""
        return at * 0

    def windows_of(self, slices: pl.Series) -> pl.DataFrame:
        """The only window."""
        bounds = [pl.lit(MIN, pl.Int64).alias("start"), pl.lit(MAX, pl.Int64).alias("end")]
        return pl.DataFrame({"slice": slices}).with_columns(bounds)

    def describe(self) -> str:
        """One line for ``explain()``."""
        return "one global window"


@with_option_hints
def global_window() -> GlobalWindow:
    """One window for the whole stream: give it a trigger, or it fires when the stream is drained.

    >>> global_window().describe()
    'one global window'
    """
    return GlobalWindow()


@described
@dataclass(frozen=True)
class Inherit:
    """The window is read from each row's ``window`` column; retractions (``diff = -1``) are applied."""

    axis: Axis = "time"

    def describe(self) -> str:
        """One line for ``explain()``."""
        return "the windows of the panes received"


@with_option_hints
def inherit() -> Inherit:
    """Use the windows that an upstream pipeline has assigned.

    >>> inherit().describe()
    'the windows of the panes received'
    """
    return Inherit()
