"""Commands to a running query, in band and exactly once, and the pages that no data brings: ticks and marks.

A command is a small file in a directory of the checkpoint, which the query reads as one more source. So a command
belongs to a batch as a row does: it is logged, and a replay applies it again in the same batch.
"""

from __future__ import annotations

import json
import os
import time
import uuid
import warnings
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventide._paths import local_path
from eventide.errors import PlanError, did_you_mean
from eventide.plan.plan import Plan
from eventide.spark import shuffle_pages as page
from eventide.spark.checkpoint_storage import storage_of
from eventide.spark.control_status import RunningLock, is_running, read_applied, write_applied
from eventide.spark.metrics import BatchMetrics
from eventide.spark.shuffle_pages import Stage, batch_time
from eventide.spark.storage import Storage, read_text
from eventide.time import instant
from eventide.triggers import AfterProcessingTime
from eventide.watermarks.generators import Noted

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column, DataFrame, SparkSession

FOLDER = "eventide/control"
_MARKER = f"{FOLDER}/_open"  # creates the folder where folders exist by their files only
_DRAINED = "eventide/drained"
_INTERVAL = 0.1  # seconds between two checks whether a command was applied
_REMOTE_INTERVAL = 1.0  # where each check is a request to a store


class Control:
    """Commands to the query of a checkpoint. A stopped query applies them when it starts again.

    Each command returns its id, for ``applied`` and ``wait``.

    >>> control = Control("/tmp/checkpoints/revenue")
    >>> control.place
    '/tmp/checkpoints/revenue/eventide/control'
    """

    def __init__(self, checkpoint: str | Path, spark: SparkSession | None = None) -> None:
        self.checkpoint = os.fspath(checkpoint)
        self.place = f"{self.checkpoint.rstrip('/')}/{FOLDER}"
        self._spark = spark
        self._lock: RunningLock | None = None

    def __repr__(self) -> str:
        return f"<Control of {self.checkpoint}>"

    @cached_property
    def storage(self) -> Storage:
        """The files of the checkpoint."""
        return storage_of(self.checkpoint, self._spark)

    def drain(self) -> str:
        """End the stream: every open window fires and closes."""
        return self._send(do="drain")

    def skip_gap(self, origin: object = None, *, up_to: int | None = None) -> str:
        """Stop waiting for missing sequence numbers of an origin: the first gap, or all up to ``up_to``."""
        return self._send(do="skip_gap", origin=_name(origin), up_to=up_to)

    def end(self, input: str | None = None) -> str:
        """End an input, by its name among several: the watermark ignores it, and a later row on it is an error."""
        return self._send(do="end", input=input)

    def retire(self, origin: object) -> str:
        """Stop waiting for an origin that will not return, or for an input, by the name that metrics show."""
        return self._send(do="retire", origin=_name(origin))

    def advance_watermark(self, to: int | str | datetime, *, key: int | str | None = None) -> str:
        """Raise the watermark: no event before it is expected any more.

        ``key`` is an input by its name, or a watermark key (default: the key that the plan follows).
        """
        time_ = to if isinstance(to, int) else instant(to, what="to")
        return self._send(do="advance_watermark", watermark=time_, to=key)

    def applied(self, command: str) -> BatchMetrics | None:
        """Return the committed batch that applied a command; None if none has yet."""
        return read_applied(self.storage, command)

    def wait(self, command: str, timeout: float = 60.0) -> BatchMetrics | None:
        """Wait for the batch that applies a command, and return it. An unknown origin in it is an error.

        None: the query does not run, or ``timeout`` seconds have passed. For a checkpoint that is not on this machine,
        it is unknown whether its query runs.
        """
        until = time.monotonic() + timeout
        while True:
            running = self.is_running  # checked first: a query may apply the command and end
            batch = self.applied(command)
            if batch is not None:
                check_known(command, batch)
            if batch is not None or running is False or time.monotonic() >= until:
                return batch
            interval = _REMOTE_INTERVAL if running is None else _INTERVAL
            time.sleep(min(interval, max(until - time.monotonic(), 0)))

    @property
    def is_running(self) -> bool | None:
        """Whether a query of this machine runs on the checkpoint; None: unknown, the checkpoint is elsewhere."""
        local = self._local()
        return None if local is None else is_running(local.parent)

    def show_running(self) -> None:
        """Make ``is_running`` true in other processes: this process starts the query."""
        if self._lock is None and (local := self._local()) is not None:
            self._lock = RunningLock(local.parent)
        if self._lock is not None:
            self._lock.acquire()

    def show_stopped(self) -> None:
        """Make ``is_running`` false: the query has ended."""
        if self._lock is not None:
            self._lock.release()

    def report(self, metrics: Sequence[BatchMetrics]) -> None:
        """Store which commands a batch has applied. Warn of those that name an unknown origin."""
        for effect in (effect for batch in metrics for effect in batch.commands if not effect.known):
            warnings.warn(
                f"The command {effect.action} {effect.origin} was ignored: the query has no such origin, input or "
                "watermark key. The metrics of its batches show the names.",
                stacklevel=2,
            )
        if applied := [operator for operator in metrics if operator.commands]:  # most batches apply none
            write_applied(self.storage, applied)

    def lower_watermark(self, to: int | str | datetime) -> None:
        """Lower the watermark of a stopped query. ``eventide repair`` checks first that its state allows it."""
        time_ = to if isinstance(to, int) else instant(to, what="to")
        self._send(do="lower_watermark", watermark=time_)

    def open(self) -> None:
        """Create the directory, which the source needs when the query starts."""
        if not self.is_open:
            self.storage.replace(_MARKER, b"")

    @property
    def is_open(self) -> bool:
        """Whether a query has been started on the checkpoint."""
        return self.storage.exists(FOLDER)

    def _send(self, **command: Any) -> str:
        # Commands of one batch are sorted as text. The time is first, so that they are applied in the order of sending.
        id_ = uuid.uuid4().hex
        line = json.dumps({"sent": time.time_ns(), "id": id_, **command})
        self.storage.replace(f"{FOLDER}/{id_}.json", f"{line}\n".encode())
        return id_

    def _local(self) -> Path | None:
        return local_path(self.place, self._spark)


def check_known(command: str, batch: BatchMetrics) -> None:
    """Reject a command that named an unknown origin."""
    effect = next(effect for effect in batch.commands if effect.id == command)
    if not effect.known:
        names = [str(name) for name, _ in batch.slowest]
        raise _unknown_origin(effect.action, effect.origin, names, more=batch.origins - len(names))


def commands(spark: SparkSession, place: str, stage: Stage) -> DataFrame:
    """Return the commands of a control stream, for every bucket that tracks progress."""
    from pyspark.sql import functions as F  # noqa: N812

    lines = spark.readStream.format("text").load(place)
    return lines.select(*for_trackers(stage, page.CONTROL, F.col("value")))


def marks_of(spark: SparkSession, stage: Stage) -> list[DataFrame]:
    """Return the marks of each stream that a watermark follows, for every bucket that tracks progress."""
    from pyspark.sql import functions as F  # noqa: N812

    rules = [edge.watermark.generator for edge in stage.plan.edges if isinstance(edge.watermark.generator, Noted)]
    marks = []
    for rule in {rule.identity: rule for rule in rules}.values():
        source = spark.readStream.format("eventide").option("only", "marks").option("identity", rule.identity)
        source = source if rule.token is None else source.option("token", rule.token)
        marks.append(source.load(rule.address).select(*for_trackers(stage, page.CONTROL, F.col("value"))))
    return marks


def _name(origin: object) -> str | None:
    return None if origin is None else str(origin)


def _unknown_origin(action: str, origin: str | None, known: Sequence[str], *, more: int = 0) -> PlanError:
    """Return the error of a command whose origin has never sent a row; ``more`` origins exist than ``known`` lists."""
    if origin is None:
        return PlanError(f"{action}: this watermark has origins. Name the one that is meant. {did_you_mean('', known)}")
    if not known:
        return PlanError(f"{action} {origin}: nothing has this name. Nothing was changed.")
    others = f" There are {more:,} more." if more > 0 else ""
    return PlanError(f"{action} {origin}: there is no such origin. {did_you_mean(origin, known)}{others}")


def check_not_drained(storage: Storage, checkpoint: str) -> None:
    """Reject a checkpoint whose stream has ended."""
    if is_drained(storage):
        raise PlanError(
            f"The checkpoint {checkpoint!r} was drained: its stream has ended, and every new row would be late. "
            "Use a new checkpoint, and another table or directory for its panes."
        )


def is_drained(storage: Storage) -> bool:
    """Return whether a batch that drained the stream was committed. Spark repeats a batch that was not."""
    batch = read_text(storage, _DRAINED)
    return batch is not None and storage.exists(f"commits/{int(batch)}")


def note_drained(storage: Storage, batch: int) -> None:
    """Note that a batch has drained the stream, before Spark commits it."""
    storage.replace(_DRAINED, f"{batch}\n".encode())


def needs_ticks(plan: Plan) -> bool:
    """Return whether something in the plan happens because time passes."""
    strategies = [edge.watermark for edge in plan.edges]
    timeouts = [
        timeout
        for strategy in strategies
        for timeout in (
            strategy.options.idle_timeout,
            strategy.options.gap_timeout,
            strategy.options.origins_timeout,
            strategy.generator.clock_delay,
        )
    ]
    has_timers = getattr(plan, "clocked", False)  # of a processor, on the clock
    return has_timers or any(timeout is not None for timeout in timeouts) or _has(plan, AfterProcessingTime)


def ticks(spark: SparkSession, stage: Stage) -> DataFrame:
    """Return one tick in every batch for every bucket that tracks progress, whether or not there is data.

    Of Spark's two sources that need no data, this one can end with ``availableNow``. With the other (``rate``) all
    available data would be one batch.
    """
    from pyspark.sql import functions as F  # noqa: N812

    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).option("numPartitions", 1).load()
    return source.select(*for_trackers(stage, page.TICK, F.lit(None).cast("string")))


def for_trackers(stage: Stage, kind: str, detail: Column) -> list[Column]:
    """Return the columns of a page without a body, once for each bucket that tracks progress."""
    from pyspark.sql import functions as F  # noqa: N812

    return [
        F.explode(F.array(*[F.lit(label) for label in stage.tracking_labels])).alias("bucket"),
        F.lit(kind).alias("kind"),
        F.lit(-1).cast("bigint").alias("sequence"),
        batch_time().alias("now"),
        F.lit(None).cast("binary").alias("body"),
        F.lit(None).cast("map<string,bigint>").alias("counts"),
        detail.alias("detail"),
    ]


def _has(part: Any, kind: type) -> bool:
    if isinstance(part, kind):
        return True
    if isinstance(part, (list, tuple)):
        return any(_has(element, kind) for element in part)
    return is_dataclass(part) and any(_has(getattr(part, field.name), kind) for field in fields(part))
