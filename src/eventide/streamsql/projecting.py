"""What becomes of panes behind the pipeline: ``HAVING`` and the columns of ``SELECT``.

Both are functions of one row. A row that is taken back repeats the values of the one that it takes back, so what is
filtered or computed here keeps the sum of the diffs true.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
from sqlglot import exp

from eventide.streamsql.ambiguous import refuse_changing
from eventide.streamsql.expressions import column, holding, of_rows
from eventide.streamsql.on_spark import held, selected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DIFF = "diff"

# Fields of a pane's structs, by the name under which expressions read them. Users' names never begin like this.
INSIDE = {
    "__window_start": ("window", "start"),
    "__window_end": ("window", "end"),
    "__pane_timing": ("pane", "timing"),
    "__pane_index": ("pane", "index"),
    "__pane_nonspeculative_index": ("pane", "nonspeculative_index"),
    "__pane_is_first": ("pane", "is_first"),
    "__pane_is_last": ("pane", "is_last"),
    "__pane_at": ("pane", "at"),
    "__pane_time": ("pane", "time"),
}
OF_PANES = {"window_start": "__window_start", "window_end": "__window_end", "window_time": "__pane_time"}
"""Columns that every table of windows has."""


@dataclass(frozen=True)
class Projection:
    """Columns over those of the panes, and a condition. ``diff`` stands behind them. Without columns, all there are."""

    columns: Mapping[str, exp.Expr] | None = None
    where: exp.Expr | None = None

    def __post_init__(self) -> None:
        for one in self.read:
            refuse_changing(one)

    @property
    def read(self) -> list[exp.Expr]:
        """All expressions."""
        return [*([] if self.columns is None else self.columns.values()), *([] if self.where is None else [self.where])]

    def tells_panes(self) -> bool:
        """Whether the condition asks for anything of a pane."""
        asked = [] if self.where is None else [one.name for one in self.where.find_all(exp.Column)]
        return any(name.startswith("__pane") for name in asked)

    def untold(self) -> str | None:
        """A field in the condition that a row does not repeat when it is taken back, if there is one."""
        asked = set() if self.where is None else {one.name for one in self.where.find_all(exp.Column)}
        if DIFF in asked:
            return DIFF
        return next((".".join(INSIDE[name]) for name in ("__pane_at", "__pane_is_last") if name in asked), None)

    @property
    def every(self) -> dict[str, exp.Expr] | None:
        """The columns of the result."""
        return None if self.columns is None else dict(self.columns) | {DIFF: column(DIFF)}

    def of_polars(self, panes: pl.DataFrame) -> pl.DataFrame:
        """The result of a frame of panes."""
        inside = []
        for name in self._inside():
            struct, field = INSIDE[name]
            taken = pl.col(struct).struct.field(field)
            inside.append((taken.cast(pl.String) if field == "timing" else taken).alias(name))
        frame = panes.with_columns(inside)
        frame = frame if self.where is None else holding(frame, self.where)
        if self.every is None:
            return frame.drop(self._inside())
        return pl.DataFrame([of_rows(frame, expression).alias(name) for name, expression in self.every.items()])

    def of_spark(self, panes: DataFrame) -> DataFrame:
        """The result of a DataFrame of panes."""
        if self.columns is None and self.where is None:
            return panes
        from pyspark.sql import functions as F  # noqa: N812

        frame = panes.withColumns({name: F.col(".".join(INSIDE[name])) for name in self._inside()})
        frame = frame if self.where is None else held(frame, self.where)
        if self.every is None:
            return frame.drop(*self._inside())
        return selected(frame, self.every)

    def _inside(self) -> list[str]:
        named = {one.name for expression in self.read for one in expression.find_all(exp.Column)}
        return [name for name in INSIDE if name in named]
