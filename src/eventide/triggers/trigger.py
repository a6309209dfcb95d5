"""What every trigger promises.

A trigger is a frozen description. It compiles to columns of the pane table and to expressions over them, so a step
evaluates the triggers of a million panes in a few vector operations. Each trigger implements the same verbs;
combinators only combine.

Triggers that count rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal, Protocol

import polars as pl

from eventide._arguments import is_integer
from eventide._columns import ADDED as ADDED_ROWS
from eventide._display import described
from eventide.errors import PlanError, shown

# What the operator provides beside a trigger's own columns while it evaluates.
ADDED = pl.col(ADDED_ROWS)  # rows that joined the pane in this bundle
COMPLETE = pl.col("__complete")  # end <= W, after the bundle's watermark
WAS_COMPLETE = pl.col("__was_complete")  # end <= W, before it
NOW = pl.col("__now")  # the batch's own clock

Merge = Literal["sum", "min", "max"]


class Finish(IntEnum):
    """When, at the soonest, a trigger stops firing for good."""

    NEVER = 0
    AT_END = 1  # not before the watermark has passed the window's end
    ANY_TIME = 2


@dataclass(frozen=True)
class Column:
    """One column of trigger state: what a new pane starts with, and how sessions that merge combine it."""

    name: str
    dtype: pl.DataType
    start: pl.Expr
    merge: Merge
    due: bool = False  # holds the processing time at which the pane must be looked at again


@dataclass
class Changes:
    """Assignments to state columns, collected while walking the tree; the last one whose condition holds wins."""

    assigned: dict[str, list[tuple[pl.Expr, pl.Expr]]] = field(default_factory=dict)

    def set(self, name: str, when: pl.Expr, value: pl.Expr) -> None:
        """Where ``when`` holds, ``name`` becomes ``value``."""
        self.assigned.setdefault(name, []).append((when, value))

    def expressions(self) -> list[pl.Expr]:
        """One expression per assigned column."""
        return [self._expression(name, pairs) for name, pairs in self.assigned.items()]

    @staticmethod
    def _expression(name: str, pairs: list[tuple[pl.Expr, pl.Expr]]) -> pl.Expr:
        value = pl.col(name)
        for when, new in pairs:
            value = pl.when(when).then(new).otherwise(value)
        return value.alias(name)


class Compiled(Protocol):
    """The verbs of a trigger over its columns."""

    def columns(self) -> list[Column]:
        """The state that a pane keeps for this trigger."""
        ...

    def add(self, when: pl.Expr, changes: Changes) -> None:
        """Rows joined the pane (``ADDED`` of them), where ``when``."""
        ...

    def fires(self) -> pl.Expr:
        """Whether the pane is to be emitted now."""
        ...

    def fired(self, when: pl.Expr, changes: Changes) -> pl.Expr:
        """The pane was emitted, where ``when``. Gives where this trigger is now finished."""
        ...

    def moved(self, when: pl.Expr, changes: Changes) -> None:
        """The window is new, or its bounds changed, where ``when``."""
        ...

    def reset(self, when: pl.Expr, changes: Changes) -> None:
        """Start again, where ``when``."""
        ...


class Trigger(Protocol):
    """When a window's pane is emitted. Made by the functions of :mod:`eventide.triggers`."""

    def finish(self) -> Finish:
        """When, at the soonest, it stops for good."""
        ...

    def compile(self, path: str) -> Compiled:
        """The columnar form; ``path`` makes its column names unique."""
        ...

    def describe(self) -> str:
        """One line for ``explain()``."""
        ...


@described
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
    if not is_integer(n, at_least=1):
        raise PlanError(f"after_count({shown(n)}): the number of rows must be an integer of at least 1.")
    return AfterCount(n)
