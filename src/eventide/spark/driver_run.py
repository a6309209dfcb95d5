"""A query whose state is in the driver: Spark reads and logs offsets, this process computes, commits and delivers.

The order within a batch is what makes it exactly once: commit record, sinks, Spark's own commit.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from eventide.errors import DriverLimitWarning
from eventide.local.background_calls import in_background
from eventide.operators.binding import operator_of
from eventide.operators.chain import Chain
from eventide.operators.row_order import in_row_order
from eventide.sinks.batch import SinkBatch
from eventide.spark.batch_log import BatchLog
from eventide.spark.clock import BATCH_TIME
from eventide.spark.command_effects import command_effect
from eventide.spark.commit_log import BatchOffsets, CommitLog
from eventide.spark.control import FOLDER as CONTROL
from eventide.spark.driver_input import DriverInput
from eventide.spark.driver_state import Commands, Delivery, DriverState, in_flight
from eventide.spark.driver_tables import TableInputs
from eventide.spark.growth import Growth
from eventide.spark.metrics import BatchMetrics, metrics_of, summed
from eventide.spark.run_outputs import RunOutputs
from eventide.spark.stage import Stage
from eventide.spark.stateful import obeyed
from eventide.spark.storage import Storage
from eventide.spark.tasks import WATERMARK
from eventide.spark.wake_up import ANSWER_PAUSE, PAUSE, WakeUp, is_wake_up

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RETAIN = "spark.sql.streaming.minBatchesToRetain"


class DriverQuery:
    """The callback of ``foreachBatch``. It swallows no exception: a batch that fails stops the query."""

    def __init__(
        self,
        stages: Sequence[Stage],
        input: DriverInput,
        tables: TableInputs,
        storage: Storage,
        outputs: RunOutputs,
        *,
        memory: int,
        ends: bool = False,
        records: Storage | None = None,
    ) -> None:
        self._chain = Chain([operator_of(stage.plan, *stage.schemas) for stage in stages])
        self._stages = stages
        self._input = input
        self._tables = tables
        self._storage = storage
        self._outputs = outputs
        self._log = CommitLog(storage, records)
        self._memory = memory
        self._growth: Growth | None = None
        self._wake_up = WakeUp(storage, CONTROL)
        self._timed = False
        self._calls = [calls for operator in self._chain.operators if (calls := in_background(operator)) is not None]
        for calls in self._calls:
            calls.wait_for_all = ends
            calls.on_answer = self._answered
            outputs.when_closed(calls.cancel)
        outputs.when_closed(self._wake_up.close)
        self._state = DriverState(self._chain, self._log, memory=memory, skipped=outputs.skipped_batches)

    def schedule(self, *, timed: bool) -> None:
        """Prepare the next batch without data: at once, if its deadline has passed while the query did not run.

        Rows that were in flight need a batch at once, too: it begins their calls.

        ``timed``: the query waits for deadlines. One that ends with the data that is there does not, and its next
        start continues.
        """
        self._timed = timed
        if self._state.recorded_in_flight():
            self._wake_up.now()
        deadline = self._state.recorded_deadline()
        if not self._wake_up.wake_if_due(deadline) and timed:
            self._wake_up.set(deadline)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Process one micro-batch."""
        start = perf_counter()
        self._compute_seconds = 0.0
        self._wake_up.set(None)
        files = self._storage.list(CONTROL)
        self._log.retain = int(batch.sparkSession.conf.get(_RETAIN, "100") or 100)
        try:
            delivery = self._state.begin(batch_id)
            if delivery is None:
                delivery = self._compute(batch, self._log.offsets(batch_id), files)
            self._log.check_epoch()
            self._deliver(delivery, batch)
            self._state.finish(batch_id)
            self._wake_up.delete(files)
        except BaseException:
            self._wake_up.close()
            self._state.drop()
            raise
        seconds = perf_counter() - start
        self._outputs.report(self._metrics(delivery, seconds))
        self._warn_of_growth(batch.sparkSession, seconds)
        if self._timed:
            self._wake_up.set(delivery.deadline, pause=PAUSE)
            missed = any(calls.arrived > calls.taken for calls in self._calls)
            if missed or (delivery.restored and in_flight(delivery.operators)):  # then no call has begun
                self._wake_up.soon(ANSWER_PAUSE)

    def _answered(self) -> None:
        """A call that spans batches is answered: a batch takes the answer, although no data may arrive."""
        if self._timed:
            self._wake_up.soon(ANSWER_PAUSE)

    def _compute(self, batch: DataFrame, offsets: BatchOffsets, files: Sequence[str]) -> Delivery:
        commands = self._commands(files)
        watermark = commands.states[0].watermark
        context = batch.sparkSession.sparkContext
        context.setLocalProperty(WATERMARK, str(watermark))
        context.setLocalProperty(BATCH_TIME, str(offsets.time))
        log = BatchLog(self._storage, offsets.batch, offsets.time)
        collected = self._input.collect(batch, log, watermark)
        tables = self._tables.collect(commands.states[0], offsets.time)
        for text in (*collected.notes, *tables.notes):
            self._apply(json.loads(text), commands)
        start = perf_counter()
        stamps = [*tables.stamps, *collected.stamps]
        if stamps and not self._chain.operators[0].judges_when_stamping:
            stamps = in_row_order(stamps)  # as on the executors
        delivery = self._state.process(offsets, stamps, commands)
        self._compute_seconds = perf_counter() - start
        self._storage.delete(f"{CONTROL}/{name}" for name in commands.names)
        return delivery

    def _commands(self, files: Sequence[str]) -> Commands:
        """Apply the commands that were sent since the last batch, in the order in which they were sent."""
        applied = set(self._state.applied_commands)
        commands = Commands(self._state.states)
        lines: list[str] = []
        for name in files:
            if name not in applied and not is_wake_up(name):
                commands.names.append(name)
                lines += self._storage.read(f"{CONTROL}/{name}").decode().splitlines()
        for line in sorted(filter(None, lines)):
            self._apply(json.loads(line), commands)
        return commands

    def _apply(self, command: dict[str, Any], commands: Commands) -> None:
        first, *others = commands.states
        if "id" in command:  # what writers of marks declare has none, and nobody waits for it
            commands.effects.append(command_effect(command, first))
        first, notes = obeyed(self._chain.operators[0], first, command)
        commands.states = (first, *others)
        commands.notes += notes

    def _warn_of_growth(self, spark: SparkSession, seconds: float) -> None:
        if self._growth is None:
            cores = spark.sparkContext.defaultParallelism
            self._growth = Growth(self._storage.location, memory=self._memory, buckets=max(cores, 2))
        message = self._growth.message(
            seconds=seconds, compute=self._compute_seconds, state_bytes=self._state.state_bytes
        )
        if message is not None:
            warnings.warn(message, DriverLimitWarning, stacklevel=2)

    def _deliver(self, delivery: Delivery, batch: DataFrame) -> None:
        def rows(output: str, depth: int) -> SinkBatch | None:
            table = delivery.tables.get((output, depth))
            if table is None:
                return None
            hidden = [] if output == "panes" else list(self._stages[depth].derived)
            return SinkBatch(table.drop_columns(hidden) if hidden else table, batch.sparkSession)

        self._outputs.write(delivery.batch, rows)
        self._outputs.advance(delivery.output_watermark)

    def _metrics(self, delivery: Delivery, seconds: float) -> list[BatchMetrics]:
        return [
            metrics_of(
                delivery.batch,
                depth,
                summed([(operator["now"], operator["counts"])], operator["detail"]),
                self._stages[depth].plan.watermark.options.watermark_key,
                seconds=seconds,
            )
            for depth, operator in enumerate(delivery.operators)
        ]
