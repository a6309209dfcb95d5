"""The control stream: commands to a running query, in band and exactly once.

A command is a small file in a directory next to the checkpoint, which the query reads as one more source. So a command
belongs to a batch like any row does: it is logged, and a replay applies it again in the same batch.
"""

from __future__ import annotations

import json
import os
import time
import uuid
import warnings
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventide.errors import cli as cli_errors
from eventide.errors import spark as errors
from eventide.spark import page
from eventide.spark.addresses import local_path
from eventide.spark.checkpoint_storage import storage_of
from eventide.spark.control_status import RunningLock, is_running, read_applied, write_applied
from eventide.spark.metrics import BatchMetrics
from eventide.spark.stage import Stage
from eventide.spark.storage import Storage
from eventide.spark.ticks import for_all_buckets
from eventide.time import instant
from eventide.watermarks.rules import Noted

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession


FOLDER = "eventide/control"
_MARKER = f"{FOLDER}/_open"  # where folders exist by their files only, this file is what makes the folder
_INTERVAL = 0.1  # seconds between two looks whether a command was applied
_REMOTE_INTERVAL = 1.0  # where each look is a request to a store


class Control:
    """Commands to the query of a checkpoint. A stopped query applies them when it starts again.

    Each command returns its id, by which ``applied`` finds the batch that applied it.

    >>> control = Control("/tmp/checkpoints/revenue")
    >>> control.place
    '/tmp/checkpoints/revenue/eventide/control'
    """

    def __init__(self, checkpoint: str | Path, spark: SparkSession | None = None) -> None:
        self.checkpoint = os.fspath(checkpoint)
        self.place = f"{self.checkpoint.rstrip('/')}/{FOLDER}"
        self._spark = spark
        self._lock: RunningLock | None = None

    @cached_property
    def storage(self) -> Storage:
        """The files of the checkpoint."""
        return storage_of(self.checkpoint, self._spark)

    def drain(self) -> str:
        """End the stream: every open window fires and closes."""
        return self._send(do="drain")

    def skip_gap(self, origin: object = None, *, up_to: int | None = None) -> str:
        """Do not wait any longer for sequence numbers of an origin that are missing (all up to ``up_to``)."""
        return self._send(do="skip", origin=_name(origin), up_to=up_to)

    def end(self, input: str | None = None) -> str:
        """End an input, by its name among several: nobody waits for it, and a row that follows on it is an error."""
        return self._send(do="end", input=input)

    def retire(self, origin: object) -> str:
        """Do not wait any longer for an origin that will not return, or for an input, by the name that metrics show."""
        return self._send(do="retire", origin=_name(origin))

    def note(self, watermark: int | str | datetime, *, key: int | str | None = None) -> str:
        """Raise the watermark: no event before it is expected any more.

        ``key`` says whose: an input by its name, or a watermark key (default: the key that time goes by).
        """
        time_ = watermark if isinstance(watermark, int) else instant(watermark)
        return self._send(do="note", watermark=time_, to=key)

    def applied(self, command: str) -> BatchMetrics | None:
        """Return the committed batch that applied a command; None: none has yet."""
        return read_applied(self.storage, command)

    def wait(self, command: str, timeout: float = 60.0) -> BatchMetrics | None:
        """Wait for the batch that applies a command, and return it. A command that names what is unknown is an error.

        None: the query does not run, or the time (in seconds) is over. Of a checkpoint that is not on this machine,
        nobody knows whether its query runs.
        """
        until = time.monotonic() + timeout
        while True:
            running = self.is_running  # asked first: a query may apply the command and end
            batch = self.applied(command)
            if batch is not None:
                check_known(command, batch)
            if batch is not None or running is False or time.monotonic() >= until:
                return batch
            interval = _REMOTE_INTERVAL if running is None else _INTERVAL
            time.sleep(min(interval, max(until - time.monotonic(), 0)))

    @property
    def is_running(self) -> bool | None:
        """Whether a query of this machine runs on the checkpoint; None: not known, the checkpoint is elsewhere."""
        local = self._local()
        return None if local is None else is_running(local.parent)

    def show_running(self) -> None:
        """Let ``is_running`` know of the query that this process starts."""
        if self._lock is None and (local := self._local()) is not None:
            self._lock = RunningLock(local.parent)
        if self._lock is not None:
            self._lock.acquire()

    def show_stopped(self) -> None:
        """Let ``is_running`` know that the query does not run any more."""
        if self._lock is not None:
            self._lock.release()

    def report(self, metrics: Sequence[BatchMetrics]) -> None:
        """Write down the commands that a batch has applied; warn of those that name what is unknown."""
        for effect in (effect for batch in metrics for effect in batch.commands if not effect.known):
            warnings.warn(errors.ignored_command(effect.action, effect.origin), stacklevel=2)
        if applied := [operator for operator in metrics if operator.commands]:  # most batches apply none
            write_applied(self.storage, applied)

    def lower_watermark(self, watermark: int | str | datetime) -> None:
        """Lower the watermark of a stopped query. ``eventide repair`` checks first that its state allows it."""
        time_ = watermark if isinstance(watermark, int) else instant(watermark)
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
        # Commands of one batch are sorted as text: the time comes first, so that they are applied as they were sent.
        number = uuid.uuid4().hex
        line = json.dumps({"sent": time.time_ns(), "id": number, **command})
        self.storage.replace(f"{FOLDER}/{number}.json", f"{line}\n".encode())
        return number

    def _local(self) -> Path | None:
        return local_path(self.place, self._spark)


def check_known(command: str, batch: BatchMetrics) -> None:
    """Reject a command whose batch did not know what it names."""
    effect = next(effect for effect in batch.commands if effect.id == command)
    if not effect.known:
        names = [str(name) for name, _ in batch.slowest]
        raise cli_errors.unknown_origin(effect.action, effect.origin, names, more=batch.origins - len(names))


def commands(spark: SparkSession, place: str, stage: Stage) -> DataFrame:
    """The commands of a control stream, for every bucket."""
    from pyspark.sql import functions as F  # noqa: N812

    lines = spark.readStream.format("text").load(place)
    return lines.select(*for_all_buckets(stage, page.CONTROL, F.col("value")))


def marks_of(spark: SparkSession, stage: Stage) -> list[DataFrame]:
    """What the writers of streams have noted, for every bucket: one source for each stream that a watermark follows."""
    from pyspark.sql import functions as F  # noqa: N812

    rules = [one.watermark.rule for one in stage.plan.edges if isinstance(one.watermark.rule, Noted)]
    found = []
    for rule in {rule.identity: rule for rule in rules}.values():
        source = spark.readStream.format("eventide").option("only", "marks").option("identity", rule.identity)
        source = source if rule.token is None else source.option("token", rule.token)
        found.append(source.load(rule.address).select(*for_all_buckets(stage, page.CONTROL, F.col("value"))))
    return found


def _name(origin: object) -> str | None:
    return None if origin is None else str(origin)
