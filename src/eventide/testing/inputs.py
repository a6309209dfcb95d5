"""The inputs of the pipeline under test: one stream, or several by their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import polars as pl
import pyarrow as pa

from eventide.aggregates.merge_inputs import SIDE
from eventide.errors import testing as errors
from eventide.local.query import Frame, as_frame
from eventide.testing.day import Day
from eventide.testing.rows import RowReader
from eventide.testing.shapes import Row, Shape

Rows: TypeAlias = "Mapping[str, Any] | Frame | Sequence[Mapping[str, Any]]"
INPUT = "input"


class TestInputs:
    """Reads the rows of each input. The columns of an input come from its schema, or from its first rows."""

    __test__ = False

    def __init__(self, plan: Any, day: Day, schema: Mapping[str, Any] | None) -> None:
        self.names = [one.name for one in plan.inputs]
        self._plan = plan
        self._day = day
        given = schema or {}
        if not self.names:
            self._readers = {"": RowReader(plan, day, given)}
            return
        if not set(given) <= set(self.names):
            raise errors.schema_of_inputs(list(given), self.names)
        self._readers = {
            name: RowReader(plan.at(edge), day, given.get(name), fixed=name in given)
            for edge, name in enumerate(self.names)
        }

    @property
    def schemas(self) -> list[dict[str, pl.DataType]] | None:
        """The columns of each input, once all are known."""
        schemas = [reader.schema for reader in self._readers.values()]
        return None if None in schemas else schemas  # type: ignore[return-value]

    def frames(self, rows: Sequence[Mapping[str, Any] | Frame], named: Mapping[str, Rows]) -> list[pl.DataFrame | None]:
        """The rows of a bundle, input by input; None: no rows, and no columns are known yet."""
        if self.names and rows:
            raise errors.rows_without_input(self.names)
        if not set(named) <= set(self.names):
            raise errors.unknown_input(list(named), self.names)
        given = named if self.names else {"": list(rows)}
        frames = [self._frame(reader, given.get(name, [])) for name, reader in self._readers.items()]
        return [frame if frame.width else None for frame in frames]

    def told(self, frames: Sequence[pl.DataFrame]) -> list[tuple[Any, pl.DataFrame, Shape, list[Row]]]:
        """Each input with rows: its plan, its frame, and how its rows are shown."""
        shown = []
        for edge, frame in enumerate(frames):
            plan = self._plan.at(edge) if self.names else self._plan
            shape, rows = Shape.of_rows(frame, what="row", day=self._day, values=frame.columns)
            shown.append((plan, frame, shape, rows))
        return shown

    def plain(self, rows: pl.DataFrame) -> list[pl.DataFrame]:
        """Late rows or dead letters with the columns of their input, and its name; of one stream, as they are."""
        if not self.names or SIDE not in rows.columns or self.names[0] not in rows.columns:
            return [rows]
        beside = [name for name in rows.columns if name not in (SIDE, *self.names, *self._plan.key)]
        frames = []
        for name in self.names:
            own = rows.filter(pl.col(SIDE) == name)
            frames.append(
                own.select(pl.col(SIDE).alias(INPUT), pl.col(name).struct.unnest(), *(pl.col(one) for one in beside))
            )
        return frames

    def _frame(self, reader: RowReader, rows: Rows) -> pl.DataFrame:
        several = [rows] if isinstance(rows, (Mapping, pl.DataFrame, pa.Table, pa.RecordBatch)) else list(rows)
        dicts = [row for row in several if isinstance(row, Mapping)]
        if len(dicts) == len(several):
            return reader.frame(dicts)
        for row in several:
            if not isinstance(row, (Mapping, pl.DataFrame, pa.Table, pa.RecordBatch)):
                raise errors.not_a_row(row)
        if len(several) > 1:
            raise errors.frame_among_rows()
        return reader.frame(as_frame(several[0]))
