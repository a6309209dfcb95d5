"""A trigger evaluated over a frame of windows. Pipelines and standalone operators share it."""

from __future__ import annotations

import polars as pl

from eventide.triggers.trigger import Changes, Column, Trigger

MOVED = "__moved"  # the bounds of the window are new, or have changed
FIRES = "__fires"


class TriggerEvaluation:
    """A compiled trigger: the columns that it stores with each window, and the expressions that update them.

    A step applies ``moved`` to windows whose bounds have changed, then ``added`` to windows with new rows. ``fires``
    selects the windows that fire. ``fired`` updates those, and ``finishes`` selects those whose trigger has finished.
    """

    def __init__(self, trigger: Trigger, path: str, *, accepts: pl.Expr) -> None:
        compiled = trigger.compile(path)
        added, moved, fired = Changes(), Changes(), Changes()
        compiled.add(accepts, added)
        compiled.moved(pl.col(MOVED), moved)
        self.finishes = compiled.fired(pl.col(FIRES), fired) & pl.col(FIRES)
        self.columns: list[Column] = compiled.columns()
        self.added, self.moved, self.fired = added.expressions(), moved.expressions(), fired.expressions()
        self.fires = compiled.fires()

    def schema(self) -> dict[str, pl.DataType]:
        """Return the columns that are stored with a window."""
        return {column.name: column.dtype for column in self.columns}

    def started(self, is_new: pl.Expr, *, keep_set: bool = False) -> list[pl.Expr]:
        """Return the stored columns, with initial values for new windows.

        ``keep_set``: a new window keeps values that are set, such as the deadline of a window that it replaces.
        """
        return [
            pl.when(is_new & pl.col(column.name).is_null() if keep_set else is_new)
            .then(column.start)
            .otherwise(column.name)
            .cast(column.dtype)
            .alias(column.name)
            for column in self.columns
        ]

    def merged(self) -> list[pl.Expr]:
        """Return the aggregations that combine the columns of windows that merge."""
        return [getattr(pl.col(column.name), column.merge)() for column in self.columns]

    def deadlines(self) -> list[pl.Expr]:
        """Return the processing times at which windows must be evaluated again."""
        return [pl.col(column.name) for column in self.columns if column.due]
