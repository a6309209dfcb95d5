"""A query over Spark Connect: its batches run in a Python process of the server, and this process follows them.

Spark pickles the callback of ``foreachBatch`` and opens it once per query, in that process. State, sinks and the
commit log are there. They meet this process in the checkpoint only: commands go one way, the history comes back.
"""

from __future__ import annotations

import atexit
import os
import pickle
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventide.errors import PlanError, cause_text, shown
from eventide.spark.batch_history import FILE, RunHistory, run_history
from eventide.spark.checkpoint_storage import record_storage, storage_of
from eventide.spark.connect_history import FollowedHistory
from eventide.spark.control import Control
from eventide.spark.driver_dataflow import DriverPlan
from eventide.spark.driver_input import BatchRows, RowInput, TableInputs
from eventide.spark.driver_query import DriverQuery
from eventide.spark.query import understood
from eventide.spark.query_batches import QueryBatches, WriteBatch
from eventide.spark.query_record import QueryRecord
from eventide.spark.shuffle_pages import Stage
from eventide.spark.sink_delivery import OnBatch, RunOutputs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_PATIENCE = 5.0  # seconds to wait for the end of a process; then it is another query of the checkpoint
_INTERVAL = 0.05
_START_PATIENCE = 60.0  # seconds in which a process that begins too late is started again
_TOO_SLOW = "Python worker failed to connect back"


@dataclass(frozen=True)
class Sinks:
    """The sinks of a query, as the user has named them."""

    panes: Any
    late: Any
    dead: Any

    def copied(self) -> Sinks:
        """Return copies, which this process may open: a sink that is open cannot be sent. Reject what cannot be."""
        from pyspark import cloudpickle

        copies = []
        for sink in (self.panes, self.late, self.dead):
            try:
                body = cloudpickle.dumps(sink)  # type: ignore[no-untyped-call]  # without types in PySpark
                copies.append(pickle.loads(body))
            except Exception as cause:  # of any class of the user
                raise PlanError(
                    f"The sink {shown(sink)} cannot be sent to the server of Spark Connect, where the query runs "
                    f"({cause_text(cause)}): let it open connections and files in open()."
                ) from cause
        return Sinks(*copies)


@dataclass(frozen=True)
class RemoteQuery:
    """A query as it is sent to the server: plain values, without a session except that of tables."""

    stages: tuple[Stage, ...]
    plain: bool
    tables: TableInputs
    record: QueryRecord
    sinks: Sinks
    missing_files: Mapping[int, int]
    checkpoint: str
    storage: Any  # of the commit records, as the user has named it
    single_writer: bool
    memory: int
    ends: bool
    ticks: bool
    trace: bool | str

    @classmethod
    def of(
        cls,
        plan: DriverPlan,
        record: QueryRecord,
        sinks: Sinks,
        missing_files: Mapping[int, int],
        checkpoint: Path,
        *,
        storage: Any,
        single_writer: bool,
        ends: bool,
        followed: bool,
        trace: bool | str | Path,
    ) -> RemoteQuery:
        """Return the query of a plan in the form that is sent to the server."""
        assert isinstance(plan.input, RowInput)  # scans are rejected over Spark Connect
        return cls(
            plan.stages,
            plan.input.reader.plain,
            plan.tables,
            record,
            sinks,
            dict(missing_files),
            str(checkpoint),
            storage,
            single_writer,
            plan.memory,
            ends,
            plan.ticks(followed=followed),
            trace if isinstance(trace, bool) else os.path.abspath(trace),  # noqa: PTH100
        )

    def open(self, spark: SparkSession) -> WriteBatch:
        """Open the query in the process that runs its batches, which is called before its first batch."""
        files = storage_of(self.checkpoint, single_writer=self.single_writer)
        control = Control(self.checkpoint)
        control.show_running()
        outputs = RunOutputs(
            self.stages,
            self.record,
            panes=self.sinks.panes,
            late=self.sinks.late,
            dead=self.sinks.dead,
            checkpoint=self.checkpoint,
            control=control,
            on_batch=None,
            missing_files=self.missing_files,
            spark=spark,
            history=run_history(Path(self.checkpoint), self.trace),
        )
        outputs.open()
        atexit.register(outputs.close)
        with outputs.closed_on_failure():
            query = DriverQuery(
                self.stages,
                BatchRows(self.stages[0], plain=self.plain),
                self.tables,
                files,
                outputs,
                memory=self.memory,
                ends=self.ends,
                records=record_storage(files, self.storage, single_writer=self.single_writer),
            )
            if not self.ticks:
                query.schedule(timed=not self.ends)
        return outputs.guarded(query)


class RemoteCallback:
    """The callback of ``foreachBatch`` over Spark Connect. It opens its query where it is unpickled."""

    def __init__(self, query: RemoteQuery) -> None:
        self._query = query

    def __reduce__(self) -> tuple[Callable[[RemoteQuery], WriteBatch], tuple[RemoteQuery]]:
        return _open_here, (self._query,)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Fail: the batches of this query run on the server."""
        raise RuntimeError("The batches of a query over Spark Connect run on its server.")


def remote_batches(query: RemoteQuery, history: RunHistory, on_batch: OnBatch | None) -> QueryBatches:
    """Return the batches of a query that the server runs."""
    followed = FollowedHistory(Path(query.checkpoint) / FILE, on_batch)

    def start(writer: DataStreamWriter) -> StreamingQuery:
        started = _start(writer)
        followed.start(str(started.id))
        return started

    def fail(cause: Exception) -> None:
        followed.refresh()
        if not followed.has_failure:
            history.fail(cause)

    def close() -> None:
        followed.close()
        _await_release(Control(query.checkpoint))

    return QueryBatches(RemoteCallback(query), start, followed, fail, close)


def _start(writer: DataStreamWriter) -> StreamingQuery:
    """Start the query. Spark gives the process ten seconds to begin, and on a busy server it may need more."""
    until = time.monotonic() + _START_PATIENCE
    while True:
        try:
            return writer.start()
        except Exception as failure:
            if _TOO_SLOW in str(failure) and time.monotonic() < until:
                continue
            if (known := understood(failure)) is failure:
                raise
            raise known from failure


def _await_release(control: Control) -> None:
    """Wait until the process of the server has ended: Spark ends it a moment after the query."""
    until = time.monotonic() + _PATIENCE
    while control.is_running and time.monotonic() < until:
        time.sleep(_INTERVAL)


def _open_here(query: RemoteQuery) -> WriteBatch:
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    assert spark is not None  # Spark's worker creates it before it unpickles the callback
    return query.open(spark)
