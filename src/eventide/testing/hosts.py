"""The inputs of the pipeline under test, and the host that runs it: in process, or any other that takes bundles."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import polars as pl
import pyarrow as pa

from eventide._column_refs import TimeColumn
from eventide._frames import Frame, as_frame
from eventide.errors import LateRowsWarning, PlanError, did_you_mean
from eventide.operators.operator import Counts
from eventide.panes import INPUT
from eventide.plan.pipeline import Pipeline
from eventide.plan.plan import Plan
from eventide.testing.errors import not_a_row
from eventide.testing.expectations import Row, Shape
from eventide.testing.rows import Day, RowReader
from eventide.time import MAX
from eventide.time.units import Unit

Rows: TypeAlias = "Mapping[str, Any] | Frame | Sequence[Mapping[str, Any]]"


class TestInputs:
    """Reads the rows of each input. An input has the columns of its schema, or else those of its first rows."""

    __test__ = False

    def __init__(self, plan: Plan, day: Day, schema: Mapping[str, Any] | None) -> None:
        self.names = [stream.name for stream in plan.inputs]
        self._plan = plan
        self._day = day
        by_name = schema or {}
        if not self.names:
            self._readers = {"": RowReader(plan, day, by_name)}
            return
        if not set(by_name) <= set(self.names):
            form = ", ".join(f"{name!r}: {{…}}" for name in self.names)
            raise PlanError(
                f"TestStream(schema=…): this pipeline has several inputs. Write schema={{{form}}}, not {list(by_name)}."
            )
        self._readers = {
            name: RowReader(plan.at(edge), day, by_name.get(name), fixed=name in by_name)
            for edge, name in enumerate(self.names)
        }

    @property
    def units(self) -> dict[str, Unit]:
        """The units of event times that are numbers, by their columns."""
        times = [self._plan.at(edge).time for edge in range(len(self._readers))]
        return {str(time): time.unit for time in times if isinstance(time, TimeColumn)}

    @property
    def schemas(self) -> list[dict[str, pl.DataType]] | None:
        """The columns of each input, once all are known."""
        schemas = [reader.schema for reader in self._readers.values() if reader.schema is not None]
        return schemas if len(schemas) == len(self._readers) else None

    def frames(self, rows: Sequence[Mapping[str, Any] | Frame], named: Mapping[str, Rows]) -> list[pl.DataFrame | None]:
        """Return the rows of each input; None: no rows, and its columns are not known yet."""
        if self.names and rows:
            form = ", ".join(f"{name}=[{{…}}]" for name in self.names)
            raise PlanError(f".add(): this pipeline has several inputs. Name the input of the rows: .add({form}).")
        for name in named:
            if name not in self.names:
                hint = did_you_mean(name, self.names) if self.names else "Add its rows as dicts: .add({…}, {…})."
                inputs = "there is no such input" if self.names else "this pipeline has one input"
                raise PlanError(f".add({name}=…): {inputs}. {hint}")
        by_name = named if self.names else {"": list(rows)}
        frames = [self._frame(reader, by_name.get(name, [])) for name, reader in self._readers.items()]
        return [frame if frame.width else None for frame in frames]

    def shaped(self, frames: Sequence[pl.DataFrame]) -> list[tuple[Any, pl.DataFrame, Shape, list[Row]]]:
        """Return for each input its plan, its frame, its shape and its rows."""
        described = []
        for edge, frame in enumerate(frames):
            plan = self._plan.at(edge) if self.names else self._plan
            shape, rows = Shape.of_rows(frame, what="row", day=self._day, values=frame.columns)
            described.append((plan, frame, shape, rows))
        return described

    def plain(self, rows: pl.DataFrame) -> list[pl.DataFrame]:
        """Return late rows or dead letters with the columns and the name of their input."""
        if not self.names or INPUT not in rows.columns or self.names[0] not in rows.columns:
            return [rows]
        added = [name for name in rows.columns if name not in (INPUT, *self.names, *self._plan.key)]
        frames = []
        for name in self.names:
            of_input = rows.filter(pl.col(INPUT) == name)
            frames.append(of_input.select(INPUT, pl.col(name).struct.unnest(), *(pl.col(stream) for stream in added)))
        return frames

    def _frame(self, reader: RowReader, rows: Rows) -> pl.DataFrame:
        several = [rows] if isinstance(rows, (Mapping, pl.DataFrame, pa.Table, pa.RecordBatch)) else list(rows)
        dicts = [row for row in several if isinstance(row, Mapping)]
        if len(dicts) == len(several):
            return reader.frame(dicts)
        for row in several:
            if not isinstance(row, (Mapping, pl.DataFrame, pa.Table, pa.RecordBatch)):
                raise not_a_row(row)
        if len(several) > 1:
            raise PlanError(
                ".add(): a bundle is either one frame or dicts. Concatenate frames first, or add them one by one."
            )
        return reader.frame(as_frame(several[0]))


@dataclass(frozen=True)
class BundleResult:
    """The output of a bundle: the panes of the last pipeline, the late and dead rows of all."""

    panes: pl.DataFrame
    late: Sequence[pl.DataFrame]
    dead: Sequence[pl.DataFrame]
    watermark: int  # of the first pipeline, after the bundle
    counts: Counts


class Host(Protocol):
    """A running query."""

    def bundle(
        self,
        rows: pl.DataFrame | Sequence[pl.DataFrame],
        *,
        now: int,
        watermark: int | None,
        polled: bool,
        key: int | str | None = None,
    ) -> BundleResult:
        """Process a bundle at batch time ``now``; ``watermark`` is an external watermark.

        Of several inputs, ``rows`` has a frame for each. ``key`` selects the watermark; MAX ends that input.
        """
        ...


Schema: TypeAlias = Mapping[str, pl.DataType]
StartHost: TypeAlias = Callable[[Pipeline, "Schema | Sequence[Schema]"], Host]


class LocalHost:
    """Runs a pipeline in this process."""

    def __init__(self, pipeline: Pipeline, schema: Schema | Sequence[Schema]) -> None:
        self._names = [stream.name for stream in pipeline.plan.inputs]
        named = dict(zip(self._names, schema, strict=True)) if self._names else schema
        self._query = pipeline.start_local(named)

    def bundle(
        self,
        rows: pl.DataFrame | Sequence[pl.DataFrame],
        *,
        now: int,
        watermark: int | None,
        polled: bool,
        key: int | str | None = None,
    ) -> BundleResult:
        """Process a bundle in all pipelines."""
        query = self._query
        with warnings.catch_warnings():  # late rows are expected, or the test fails
            warnings.simplefilter("ignore", LateRowsWarning)
            if isinstance(rows, pl.DataFrame):
                query.push(rows, now=now, watermark=watermark, polled=polled)
            elif watermark == MAX:
                _ = query.drain(now=now) if key is None else query.end(str(key), now=now)
            else:
                named = dict(zip(self._names, rows, strict=True))
                query.push(named, now=now, watermark=watermark, key=key, polled=polled)
        steps = [operator.steps[-1] for operator in query.result.operators]
        late, dead = [step.late for step in steps], [step.dead for step in steps]
        return BundleResult(steps[-1].panes, late, dead, steps[0].watermark_us, steps[0].counts)

    def wait_for_calls(self, answers: int | None = None) -> None:
        """Wait for calls that span bundles."""
        self._query.wait_for_calls(answers)

    def skip_gap(self, origin: str | None, up_to: int | None) -> bool:
        """Stop waiting for missing sequence numbers."""
        return self._query.skip_gap(origin, up_to=up_to)

    def retire(self, origin: str | None) -> bool:
        """Stop waiting for an origin or an input. False: there is none of this name."""
        known = self._query.has_origin(origin)
        self._query.retire(origin)
        return known
