"""The contract of a trigger, and the trigger that counts rows.

A trigger is a frozen description. It compiles to columns of the pane table and to expressions over them, so a step
evaluates the triggers of a million panes in a few vector operations. Each trigger implements the same verbs;
combinators only combine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal, Protocol

import polars as pl

from eventide._arguments import is_integer
from eventide._columns import ADDED as ADDED_ROWS
from eventide._columns import NOW as NOW_COLUMN
from eventide._display import described
from eventide._hints import with_option_hints
from eventide.errors import PlanError, shown

# Columns that the operator provides in addition to those of the trigger.
ADDED = pl.col(ADDED_ROWS)  # rows that joined the pane in this bundle
COMPLETE = pl.col("__complete")  # end <= W, after the bundle's watermark
WAS_COMPLETE = pl.col("__was_complete")  # end <= W, before it
NOW = pl.col(NOW_COLUMN)  # the batch time

Merge = Literal["sum", "min", "max"]


class Finish(IntEnum):
    """The earliest moment at which a trigger can finish, after which it never fires again."""

    NEVER = 0
    AT_END = 1  # not before the watermark has passed the window's end
    ANY_TIME = 2


@dataclass(frozen=True)
class Column:
    """A column of trigger state: its value in a new pane, and how merged sessions combine it."""

    name: str
    dtype: pl.DataType
    start: pl.Expr
    merge: Merge
    due: bool = False  # has the processing time at which the pane must be evaluated again


@dataclass
class Changes:
    """Assignments to state columns, collected from the tree of triggers. The last one whose condition holds wins."""

    assigned: dict[str, list[tuple[pl.Expr, pl.Expr]]] = field(default_factory=dict)

    def set(self, name: str, when: pl.Expr, value: pl.Expr) -> None:
        """Set ``name`` to ``value`` where ``when`` holds."""
        self.assigned.setdefault(name, []).append((when, value))

    def expressions(self) -> list[pl.Expr]:
        """Return one expression per assigned column."""
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
        """Return the columns that are stored with a pane for this trigger."""
        ...

    def add(self, when: pl.Expr, changes: Changes) -> None:
        """Record that ``ADDED`` rows joined the pane, where ``when``."""
        ...

    def fires(self) -> pl.Expr:
        """Return whether the pane is emitted now."""
        ...

    def fired(self, when: pl.Expr, changes: Changes) -> pl.Expr:
        """Record that the pane was emitted, where ``when``. Returns where this trigger has finished."""
        ...

    def moved(self, when: pl.Expr, changes: Changes) -> None:
        """Record that the window is new, or that its bounds changed, where ``when``."""
        ...

    def reset(self, when: pl.Expr, changes: Changes) -> None:
        """Start again where ``when`` holds."""
        ...


class Trigger(Protocol):
    """When the panes of a window are emitted. The functions of :mod:`eventide.triggers` create triggers."""

    def finish(self) -> Finish:
        """Return the earliest moment at which it can finish."""
        ...

    def compile(self, path: str) -> Compiled:
        """Return the columnar form. ``path`` makes its column names unique."""
        ...

    def describe(self) -> str:
        """One line for ``explain()``."""
        ...


@described
@dataclass(frozen=True)
class AfterCount:
    """Fires once, when at least ``n`` rows have joined since it started."""

    n: int

    def finish(self) -> Finish:
        """At any time: when enough rows have arrived."""
        return Finish.ANY_TIME

    def compile(self, path: str) -> Compiled:
        """Return a counter per pane."""
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
        """Do nothing: the counts of merged sessions are already added."""

    def reset(self, when: pl.Expr, changes: Changes) -> None:
        changes.set(self.name, when, pl.lit(0, pl.Int64))


def not_a_trigger(where: str, value: object) -> PlanError:
    """Return the error about a value that is no trigger."""
    hint = f" Call it: {value.__name__}(…)." if callable(value) and hasattr(value, "__name__") else ""
    return PlanError(
        f"{where} needs a trigger such as ev.after_watermark() or ev.every('10 seconds'), not {shown(value)}.{hint}"
    )


@with_option_hints
def after_count(n: int) -> AfterCount:
    """Once ``n`` rows have joined the window. Counted per bundle: three rows at once give one pane of three.

    >>> after_count(100).describe()
    'after 100 rows'
    """
    if not is_integer(n, at_least=1):
        raise PlanError(f"after_count({shown(n)}): the number of rows must be an integer of at least 1.")
    return AfterCount(n)
