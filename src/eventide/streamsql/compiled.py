"""A query that was compiled: the rows it reads, the pipelines they go through, and what becomes of the panes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from eventide.plan import Pipeline
from eventide.streamsql.expressions import column, text_of
from eventide.streamsql.places import said_at
from eventide.streamsql.projecting import DIFF, INSIDE, OF_PANES, Projection
from eventide.streamsql.rows import Rows

if TYPE_CHECKING:
    from eventide.streamsql.read_columns import ReadColumns


@dataclass(frozen=True)
class Compiled:
    """``inputs`` are those of the first pipeline, by their names. ``notes`` are for EXPLAIN.

    ``columns`` are those of the last pipeline's result that have a name of their own, where they are known. ``united``
    is the place of the UNION ALL whose parts are the inputs. ``read`` are the columns that a join reads.
    """

    pipelines: tuple[Pipeline, ...]
    inputs: Mapping[str, Rows]
    projection: Projection
    columns: tuple[str, ...] | None
    windowed: bool
    notes: tuple[str, ...] = ()
    united: exp.Expr | None = None
    read: ReadColumns | None = None

    def reading(self, names: set[str]) -> Compiled:
        """The same for a query that reads only some columns of the result: a join then stores fewer columns."""
        return self if self.read is None else replace(self, inputs=self.read.inputs(names))

    @contextmanager
    def blaming_the_union(self) -> Iterator[None]:
        """Types of columns are known only with the rows; what is refused of them here was said by UNION ALL."""
        with nullcontext() if self.united is None else said_at(self.united):
            yield

    @property
    def plain(self) -> bool:
        """Whether the panes are what the last pipeline gave: nothing computed or filtered, only renamed."""
        if self.projection.where is not None:
            return False
        chosen = self.projection.columns or {}
        bounds = {name: one for name, one in chosen.items() if name in OF_PANES}
        others = [one for name, one in chosen.items() if name not in OF_PANES]
        return all(isinstance(one, exp.Column) and one.name == OF_PANES[name] for name, one in bounds.items()) and all(
            isinstance(one, exp.Column) and one.name not in INSIDE for one in others
        )

    @property
    def renamed(self) -> dict[str, str]:
        """Columns that the query calls differently than the panes, and what those call them."""
        chosen = (self.projection.columns or {}).items()
        return {name: one.name for name, one in chosen if isinstance(one, exp.Column) and name not in OF_PANES}

    @property
    def selectable(self) -> dict[str, exp.Expr] | None:
        """The columns of the result that an outer query can name, each over those of the panes; None: not known."""
        own = self.projection.columns
        if own is None and self.columns is None:
            return None
        of_windows = {name: column(inside) for name, inside in OF_PANES.items()} if self.windowed else {}
        plain = {name: column(name) for name in self.columns or ()}
        return {DIFF: column(DIFF)} | ({**of_windows, **plain} if own is None else dict(own))

    @property
    def told(self) -> list[str]:
        """For EXPLAIN: what is done with rows before the pipeline, and with panes behind it, and the notes."""
        lines = []
        for rows in self.inputs.values():
            for step in rows.steps:
                said = [] if step.where is None else [f"where {text_of(step.where)}"]
                made = [text_of(one) for name, one in step.columns.items() if one != column(name)]
                said += [f"with {', '.join(made)}"] if made else []
                lines += [f"rows of {rows.stream.name}: {', '.join(said)}"] if said else []
        if self.projection.where is not None:
            lines.append(f"panes: where {text_of(self.projection.where).replace('__', '')}")
        return lines + [f"note: {one}" for one in self.notes]

    @property
    def names(self) -> tuple[str, ...] | None:
        """The columns that a query of this result can name, beside those of windows."""
        if self.projection.columns is None:
            return self.columns
        return tuple(name for name in self.projection.columns if name not in OF_PANES)
