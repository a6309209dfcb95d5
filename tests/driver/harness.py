"""The driver placement without Spark: the same commit log and state, on offsets that the harness logs as Spark does."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from eventide.operators.chain import Chain
from eventide.operators.factory import operator_of
from eventide.operators.operator import Counts, drained, ended, noted
from eventide.plan.pipeline import Pipeline
from eventide.spark import shuffle_pages as page
from eventide.spark.commit_log import CommitLog
from eventide.spark.driver_state import Commands, Delivery, DriverState
from eventide.spark.inspection import read_driver_state
from eventide.spark.metrics import REASONS
from eventide.spark.rescale import divide_operators
from eventide.spark.staged_state import RecordWriter
from eventide.spark.storage import LocalStorage, Storage
from eventide.spark.types import polars_schema, spark_schema
from eventide.testing.hosts import BundleResult
from eventide.time import MAX
from eventide.watermarks import Note
from tests.pages.divided_state import DividedState

Schema = Mapping[str, pl.DataType]


class Checkpoint:
    """A checkpoint directory with the offset log that Spark would write."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "offsets").mkdir(parents=True, exist_ok=True)

    def log_offsets(self, batch: int, now: int, offsets: object = None) -> None:
        """Log a batch at ``now`` (microseconds; Spark logs milliseconds)."""
        about = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": now // 1000})
        (self.directory / "offsets" / str(batch)).write_text(f"v1\n{about}\n{json.dumps(offsets or batch)}")


class Driver:
    """A driver process: it knows only what is in the checkpoint, until it has opened it."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        pipeline: Pipeline,
        schemas: Sequence[Schema],
        *,
        memory: int = 1 << 30,
        retain: int = 100,
        records: Storage | None = None,
    ) -> None:
        operators = []
        for plan in pipeline.plans:
            operators.append(operator_of(plan, *schemas))
            schemas = (polars_schema(spark_schema(operators[-1].output_schemas()["panes"])),)
        self.chain = Chain(operators)
        self.log = CommitLog(LocalStorage(checkpoint.directory), records, retain=retain)
        self.state = DriverState(self.chain, self.log, memory=memory)

    def batch(
        self,
        number: int,
        frames: Sequence[pl.DataFrame],
        notes: Sequence[Note] = (),
        *,
        now: int | None = None,
        finish: bool = True,
        tasks: int = 0,
    ) -> Delivery:
        """Process a batch as the callback of Spark does, up to its sinks.

        ``now``: histories have finer clocks. ``tasks``: as many stamp the rows, and their stamps travel as pages; with
        none the rows travel.
        """
        delivery = self.state.begin(number)
        if delivery is None:
            offsets = self.log.offsets(number)
            offsets = offsets if now is None else replace(offsets, time=now)
            first = self.chain.operators[0]
            stamps = [
                stamp
                for edge, rows in enumerate(frames)
                for part in _parts(rows, max(tasks, 1))
                for stamp in [first.stamp(part, offsets.time, self.state.watermark, edge)]
            ]
            if tasks:
                stamps = [page.stamp_from_bytes(page.stamp_to_bytes(stamp)) for stamp in stamps]
            delivery = self.state.process(offsets, stamps, Commands(self.state.states, notes=list(notes)))
        self.log.check_epoch()
        if finish:
            self.state.finish(number)
        return delivery


class DriverHost:
    """Pipelines whose state is in a driver that restarts, and repeats batches, whenever ``fate`` says so."""

    def __init__(
        self,
        place: Path,
        pipeline: Pipeline,
        schema: Schema | Sequence[Schema],
        *,
        memory: int = 1 << 30,
        tasks: int = 0,
        fate: Callable[[], str] = lambda: "",
    ) -> None:
        self._checkpoint = Checkpoint(place)
        schemas = (schema,) if isinstance(schema, Mapping) else tuple(schema)
        self._start: Callable[[], Driver] = lambda: Driver(self._checkpoint, pipeline, schemas, memory=memory, retain=3)
        self._driver = self._start()
        self._fate = fate
        self._tasks = tasks
        self._batch = 0

    def stored(self, buckets: int, *, coalesced: bool = False) -> list[DividedState]:
        """The state of each operator after the last batch, in so many buckets."""
        log = CommitLog(LocalStorage(self._checkpoint.directory))
        record = log.newest()
        assert record is not None
        divisions = divide_operators(read_driver_state(log, record), buckets, lambda depth, sources, count: coalesced)
        return [DividedState(list(division.buckets), division.tracker) for division in divisions]

    def restore(self, operators: Sequence[DividedState], *, now: int) -> None:
        """Go on from the state of another host that has processed a batch."""
        log = CommitLog(LocalStorage(self._checkpoint.directory))
        self._checkpoint.log_offsets(self._batch, now)
        record = RecordWriter(log, self._batch)
        for operator in operators:
            record.add(operator)
        record.commit()
        self._driver = self._start()
        self._batch += 1

    def bundle(
        self,
        rows: pl.DataFrame | Sequence[pl.DataFrame],
        *,
        now: int,
        watermark: int | None,
        polled: bool = True,
        key: int | str | None = None,
    ) -> BundleResult:
        """Process a bundle."""
        frames = [rows] if isinstance(rows, pl.DataFrame) else list(rows)
        plan = self._driver.chain.operators[0].plan
        notes: Sequence[Note] = ()
        if watermark == MAX:
            notes = drained(plan) if key is None else [ended(plan, str(key))]
        elif watermark is not None:
            notes = [noted(plan, key, watermark)]
        self._checkpoint.log_offsets(self._batch, now)
        fate = self._fate()
        if fate == "restart":
            self._driver = self._start()
        delivery = self._driver.batch(self._batch, frames, notes, now=now, finish=fate != "repeat", tasks=self._tasks)
        if fate == "repeat":  # the driver ends before Spark has committed, and the rows of the batch have changed
            self._driver = self._start()
            again = self._driver.batch(self._batch, [frame.clear() for frame in frames], notes, now=now)
            assert again.restored and again.tables.keys() == delivery.tables.keys()
            assert all(again.tables[name].equals(table) for name, table in delivery.tables.items())
            delivery = again
        self._batch += 1
        return self._came(delivery)

    def _came(self, delivery: Delivery) -> BundleResult:
        operators = self._driver.chain.operators

        def rows(kind: str, depth: int) -> pl.DataFrame:
            schema = operators[depth].output_schemas()[kind]
            table = delivery.tables.get((kind, depth))
            return pl.DataFrame(schema=schema) if table is None else _typed(table, schema)

        depths = range(len(operators))
        panes = rows("panes", len(operators) - 1)
        counts = delivery.operators[0]["counts"]
        return BundleResult(
            panes,
            [rows("late", depth) for depth in depths],
            [rows("dead", depth) for depth in depths],
            self._driver.state.states[0].watermark,
            _counts(counts),
        )


def _parts(rows: pl.DataFrame, tasks: int) -> list[pl.DataFrame]:
    size = -(-rows.height // tasks) or 1
    return [rows.slice(start, size) for start in range(0, rows.height, size)]


def _typed(table: pa.Table, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(table)).cast(pl.Schema(schema))


def _counts(counts: Mapping[str, Any]) -> Counts:
    timings = ("EARLY", "ON_TIME", "LATE")
    names = ("rows", "kept", "late", "refined", "unemitted", "retractions", "forgotten_keys")
    return Counts(
        **{name: counts.get(name, 0) for name in names},
        dead={reason: number for reason in REASONS if (number := counts.get(f"dead_{reason}", 0))},
        panes={timing: number for timing in timings if (number := counts.get(f"panes_{timing.lower()}", 0))},
    )
