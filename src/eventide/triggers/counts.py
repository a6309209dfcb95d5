"""Triggers that count rows."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from eventide.errors import triggers as errors
from eventide.triggers.trigger import ADDED, Changes, Column, Compiled, Finish


@dataclass(frozen=True)
class AfterCount:
    """Fires once, when at least ``n`` rows have joined since it began."""

    n: int

    def finish(self) -> Finish:
        """As soon as the rows are there."""
        return Finish.ANY_TIME

    def compile(self, path: str) -> Compiled:
        """One counter a pane."""
        return _Counter(self.n, f"{path}.rows")

    def describe(self) -> str:
        """One line for ``explain()``."""
        return f"after {self.n} row{'s' * (self.n != 1)}"


@dataclass(frozen=True)
class _Counter:
    n: int
    name: str

    def columns(self) -> list[Column]:
        return [Column(self.name, pl.Int64(), pl.lit(0, pl.Int64), "sum")]

    def add(self, when: pl.Expr, changes: Changes) -> None:
        changes.set(self.name, when, pl.col(self.name) + ADDED)

    def fires(self) -> pl.Expr:
        return pl.col(self.name) >= self.n

    def fired(self, when: pl.Expr, changes: Changes) -> pl.Expr:
        return when

    def moved(self, when: pl.Expr, changes: Changes) -> None:
        """Counts of merged sessions have been added up already."""

    def reset(self, when: pl.Expr, changes: Changes) -> None:
        changes.set(self.name, when, pl.lit(0, pl.Int64))


def after_count(n: int) -> AfterCount:
    """Once ``n`` rows have joined the window. Counted per bundle: three rows at once give one pane of three.

    >>> after_count(100).describe()
    'after 100 rows'
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise errors.not_a_count(n)
    return AfterCount(n)
