"""A query whose state is in the driver: Spark reads and logs offsets, this process computes, commits and delivers.

The order within a batch is what makes it exactly once: commit record, sinks, Spark's own commit.
"""

from __future__ import annotations

import json
import warnings
from collections import deque
from collections.abc import Sequence
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

from eventide.errors import DriverLimitWarning
from eventide.local.background_calls import attach_background_calls
from eventide.operators.chain import Chain
from eventide.operators.factory import operator_of
from eventide.operators.operator import Stamp
from eventide.operators.row_order import in_row_order
from eventide.sinks.batch import SinkBatch
from eventide.spark.buckets import default_buckets, query_cores
from eventide.spark.checkpoint_storage import can_rescale
from eventide.spark.commit_log import BatchOffsets, CommitLog
from eventide.spark.control import FOLDER as CONTROL
from eventide.spark.deadlines import ANSWER_PAUSE, PAUSE, WakeUp, is_wake_up
from eventide.spark.driver_input import BatchReader, TableInputs
from eventide.spark.driver_state import Commands, Delivery, DriverState, in_flight
from eventide.spark.metrics import batch_metrics, command_effect, sum_buckets
from eventide.spark.query_record import cannot_move
from eventide.spark.shuffle_pages import Stage
from eventide.spark.sink_delivery import RunOutputs
from eventide.spark.source_log import BatchLog, Positions
from eventide.spark.stateful import apply_command
from eventide.spark.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCHES = 10
"""Batches that are judged together: a single slow one (a backlog, a full window) is no reason to move."""

SHUFFLE_SECONDS = 1.0
"""Seconds that state on the executors adds to a batch, at most."""

WORTHWHILE = 2 / 3
"""Of the batch time: a move is worth it if no more than this is left."""

MEMORY_SHARE = 0.8
"""Of ``state_memory``, for state that cannot be evicted: a query needs room to grow until it has been moved."""

_RETAIN = "spark.sql.streaming.minBatchesToRetain"


class DriverQuery:
    """The callback of ``foreachBatch``. It swallows no exception: a batch that fails stops the query."""

    def __init__(
        self,
        stages: Sequence[Stage],
        input: BatchReader,
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
        self._can_move = can_rescale(storage)
        self._memory = memory
        self._growth: Growth | None = None
        self._compute_seconds = 0.0
        self._phases: dict[str, float] = {}
        self._wake_up = WakeUp(storage, CONTROL)
        self._timed = False
        self._beginnings: dict[int, Positions | None] = {}
        self._calls = [
            calls for operator in self._chain.operators if (calls := attach_background_calls(operator)) is not None
        ]
        for calls in self._calls:
            calls.wait_for_all = ends
            calls.on_answer = self._on_answer
            outputs.when_closed(calls.cancel)
        outputs.when_closed(self._wake_up.close)
        self._state = DriverState(self._chain, self._log, memory=memory, skipped=outputs.skipped_batches)

    def schedule(self, *, timed: bool) -> None:
        """Prepare the next batch without data: at once, if its deadline has passed while the query did not run.

        Rows that were in flight need a batch at once, too: it begins their calls. ``timed``: the query waits for
        deadlines. A query that ends with the available data does not, and its next start continues.
        """
        self._timed = timed
        if self._state.recorded_in_flight():
            self._wake_up.now()
        deadline = self._state.recorded_deadline()
        if not self._wake_up.wake_if_due(deadline) and timed:
            self._wake_up.set(deadline)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Process one micro-batch: compute and commit it, or read its record; then deliver."""
        start = perf_counter()
        self._phases = {}
        self._wake_up.set(None)
        self._log.retain = int(batch.sparkSession.conf.get(_RETAIN, "100") or 100)
        control_files = self._storage.list(CONTROL)
        try:
            delivery = self._state.begin(batch_id) or self._compute(batch, batch_id, control_files)
            computed = perf_counter()
            self._deliver(delivery, batch.sparkSession)
            self._phases["deliver"] = perf_counter() - computed
            self._state.finish(batch_id)
            self._delete_control_files(control_files)
        except BaseException:
            self._wake_up.close()
            self._state.drop()
            raise
        self._report(delivery, batch.sparkSession, perf_counter() - start)
        self._schedule_next(delivery)

    def _compute(self, batch: DataFrame, batch_id: int, control_files: Sequence[str]) -> Delivery:
        """Read, stamp and process the rows of a batch, and commit its record."""
        offsets = self._log.offsets(batch_id)
        commands = self._apply_commands(control_files)
        begin = perf_counter()
        stamps = self._read(batch, offsets, commands)
        start = perf_counter()
        if stamps and not self._chain.operators[0].judges_when_stamping:
            stamps = in_row_order(stamps)  # as on the executors
        delivery = self._state.process(offsets, stamps, commands)
        self._compute_seconds = perf_counter() - start
        self._phases |= {"read": start - begin, "compute": self._compute_seconds}
        return delivery

    def _read(self, batch: DataFrame, offsets: BatchOffsets, commands: Commands) -> Sequence[Stamp]:
        """Return the stamped rows of all inputs. What streams declare of time is applied as commands are."""
        state = commands.states[0]
        spark = batch.sparkSession
        log = BatchLog(self._storage, offsets.batch, offsets.time, spark, beginnings=self._beginnings)
        collected = self._input.collect(batch, log, state.watermark)
        tables = self._tables.collect(state, offsets.time)
        for note in (*collected.notes, *tables.notes):
            self._apply(json.loads(note), commands)
        return [*tables.stamps, *collected.stamps]

    def _apply_commands(self, control_files: Sequence[str]) -> Commands:
        """Apply the commands that were sent since the last batch, in the order in which they were sent."""
        applied = set(self._state.applied_commands)
        commands = Commands(self._state.states, present=control_files)
        commands.names += [name for name in control_files if name not in applied and not is_wake_up(name)]
        texts = [self._storage.read(f"{CONTROL}/{name}").decode() for name in commands.names]
        for line in sorted(line for text in texts for line in text.splitlines() if line):
            self._apply(json.loads(line), commands)
        return commands

    def _apply(self, command: dict[str, Any], commands: Commands) -> None:
        first, *others = commands.states
        if "id" in command:  # what writers of marks declare has none, and no caller waits for it
            commands.effects.append(command_effect(command, first))
        first, notes = apply_command(self._chain.operators[0], first, command)
        commands.states = (first, *others)
        commands.notes += notes

    def _deliver(self, delivery: Delivery, spark: SparkSession) -> None:
        """Write the outputs, and the output watermark after them.

        The epoch is checked before each sink and before the watermark, because a write may take long.
        """

        def rows(output: str, depth: int) -> SinkBatch | None:
            table = delivery.tables.get((output, depth))
            if table is None:
                return None
            self._log.check_epoch()
            derived = [] if output == "panes" else list(self._stages[depth].derived)
            table = table.drop_columns(derived) if derived else table
            return SinkBatch(table, spark, check_writer=self._log.check_epoch)

        if not delivery.tables:
            self._log.check_epoch()
        self._outputs.write(delivery.batch, rows)
        if self._outputs.followed:
            self._log.check_epoch()
        self._outputs.advance(delivery.output_watermark)

    def _delete_control_files(self, names: Sequence[str]) -> None:
        """Delete wake-ups and the commands that are applied. Commands that arrived after the record was written stay.

        A driver that was paused in its sinks may have a successor, so the epoch is checked again.
        """
        applied = set(self._state.applied_commands)
        finished = [name for name in names if is_wake_up(name) or name in applied]
        if finished:
            self._log.check_epoch()
            self._storage.delete(f"{CONTROL}/{name}" for name in finished)

    def _report(self, delivery: Delivery, spark: SparkSession, seconds: float) -> None:
        self._outputs.report(
            [
                batch_metrics(
                    delivery.batch,
                    depth,
                    sum_buckets([(operator["now"], operator["counts"])], operator["detail"]),
                    self._stages[depth].plan.watermark.options.watermark_key,
                    seconds=seconds,
                    phases=self._phases,
                )
                for depth, operator in enumerate(delivery.operators)
            ]
        )
        if self._growth is None:
            buckets = max(default_buckets(query_cores(spark)), 2)
            self._growth = Growth(self._storage.location, memory=self._memory, buckets=buckets, can_move=self._can_move)
        compute = 0.0 if delivery.restored else self._compute_seconds
        message = self._growth.message(seconds=seconds, compute=compute, pinned_bytes=self._state.pinned_bytes)
        if message is not None:
            warnings.warn(message, DriverLimitWarning, stacklevel=2)

    def _schedule_next(self, delivery: Delivery) -> None:
        """Wake the query for the next deadline, and for answers that no batch has taken."""
        if self._timed:
            self._wake_up.set(delivery.deadline, pause=PAUSE)
            missed = any(calls.arrived > calls.taken for calls in self._calls)
            if missed or (delivery.restored and in_flight(delivery.operators)):  # then no call has begun
                self._wake_up.soon(ANSWER_PAUSE)

    def _on_answer(self) -> None:
        """Start a batch that takes the answer of a call, although no data may arrive."""
        if self._timed:
            self._wake_up.soon(ANSWER_PAUSE)


class Growth:
    """Decides from the batches of a query when it outgrows the driver, and warns once.

    Two rules: state that cannot be evicted fills most of its memory; or the executors would save a third of the time.
    Only the time that this process spends on state is divided among them, and they add up to a second.
    """

    def __init__(self, checkpoint: str, *, memory: int, buckets: int, can_move: bool = True) -> None:
        """``buckets``: those that the state should move to. ``can_move``: ``rescale`` accepts the checkpoint."""
        self._memory = memory
        self._buckets = buckets
        self._remedy = (
            f"Stop the query and move its state: eventide rescale {checkpoint} --buckets {buckets}"
            if can_move
            else f"Give the driver more memory, or drain the query and start it with state='executors' and a new "
            f"checkpoint. {cannot_move()}"
        )
        self._seconds: deque[float] = deque(maxlen=BATCHES)
        self._compute: deque[float] = deque(maxlen=BATCHES)
        self._warned = False

    def message(self, *, seconds: float, compute: float, pinned_bytes: int) -> str | None:
        """Return the warning after a batch, if it is time.

        ``seconds`` is the time of the batch and ``compute`` the part of it that was spent on state. ``pinned_bytes`` is
        the size of the state that has to stay in memory.

        >>> growth = Growth("checkpoints/orders", memory=1000, buckets=4)
        >>> growth.message(seconds=1, compute=0.5, pinned_bytes=100)
        >>> print(growth.message(seconds=1, compute=0.5, pinned_bytes=900))
        Open panes, waiting rows and other state that cannot leave memory take 90 % of what they may use in the driver \
(state_memory=). Stop the query and move its state: eventide rescale checkpoints/orders --buckets 4
        """
        self._seconds.append(seconds)
        self._compute.append(compute)
        reason = None if self._warned else self._memory_used(pinned_bytes) or self._time_used()
        if reason is None:
            return None
        self._warned = True
        return f"{reason} {self._remedy}"

    def _memory_used(self, pinned_bytes: int) -> str | None:
        share = pinned_bytes / max(self._memory, 1)
        if share < MEMORY_SHARE:
            return None
        return (
            f"Open panes, waiting rows and other state that cannot leave memory take {share * 100:.0f} % of what they "
            "may use in the driver (state_memory=)."
        )

    def _time_used(self) -> str | None:
        if len(self._seconds) < BATCHES:
            return None
        seconds, compute = median(self._seconds), median(self._compute)
        moved = seconds - compute + compute / self._buckets + SHUFFLE_SECONDS
        if moved > seconds * WORTHWHILE:
            return None
        return (
            f"Batches take {seconds:.1f} seconds, and the driver spends {compute / seconds * 100:.0f} % of them on "
            "state."
        )
