"""What every trigger promises.

A trigger is a frozen description. It compiles to columns of the pane table and to expressions over them, so a step
evaluates the triggers of a million panes in a few vector operations. Each trigger implements the same verbs;
combinators only combine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal, Protocol

import polars as pl

# What the operator provides beside a trigger's own columns while it evaluates.
ADDED = pl.col("__added")  # rows that joined the pane in this bundle
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
