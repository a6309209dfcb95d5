"""Outputs in the commit record of a batch that Spark has not committed: its sinks may not have them.

The next run of the query delivers them before anything else. If a sink fails permanently, they can be listed and
exported, and the batch can be confirmed without them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from eventide._paths import make_directory, sync
from eventide.errors import PlanError
from eventide.sinks import OutputInfo, Sink
from eventide.sinks.batch import SinkBatch
from eventide.sinks.sink import Output
from eventide.spark.checkpoint_storage import record_storage, storage_of
from eventide.spark.commit_log import CommitLog
from eventide.spark.control_status import is_running
from eventide.spark.errors import no_state
from eventide.spark.query_record import QueryRecord, placement_of
from eventide.spark.replacement import check_settled
from eventide.spark.shuffle_pages import read_batches
from eventide.spark.storage import LocalStorage, Storage
from eventide.state.commit_record import Record, Span

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COMMITS = "commits"


@dataclass(frozen=True)
class PendingOutput:
    """An output of a pending batch."""

    batch: int
    output: str  # panes, late or dead
    depth: int  # of the operator: 0 is the first pipeline of a chain
    table: pa.Table

    @property
    def file(self) -> str:
        """The name of its file in an export."""
        return f"batch-{self.batch}.{self.output}.{self.depth}.parquet"


def recorded_tables(log: CommitLog, record: Record) -> dict[tuple[str, int], pa.Table]:
    """Return the outputs that a commit record holds, by their name and the depth of the operator."""
    tables = {}
    for output in record.footer["outputs"]:
        span, file = Span(*output["span"]), output.get("file")
        body = record.part(span) if file is None else span.verified(log.read_output(file), file)
        tables[output["output"], output["depth"]] = pa.Table.from_batches(read_batches(body))
    return tables


def pending_record(storage: Storage, records: Storage | None = None) -> Record | None:
    """Return the commit record whose batch Spark has not committed; None if there is none."""
    newest = CommitLog(storage, records).newest()
    return None if newest is None or storage.exists(f"{_COMMITS}/{newest.footer['batch']}") else newest


def pending_outputs(
    checkpoint: str | Path, *, storage: Any = None, spark: SparkSession | None = None
) -> list[PendingOutput]:
    """Return the outputs of a checkpoint that no sink has confirmed.

    ``storage``: as it was passed to ``run``. ``spark`` opens a checkpoint that is not on this machine.
    """
    files = _files(checkpoint, spark)
    records = record_storage(files, storage)
    record = pending_record(files, records)
    if record is None:
        return []
    batch: int = record.footer["batch"]
    tables = recorded_tables(CommitLog(files, records), record)
    return [PendingOutput(batch, output, depth, table) for (output, depth), table in sorted(tables.items())]


def export_outputs(pending: Iterable[PendingOutput], directory: Path) -> list[Path]:
    """Write outputs as Parquet files durably, and return their paths. A file that exists is not replaced."""
    make_directory(directory)
    paths = []
    for output in pending:
        path = directory / output.file
        unfinished = path.with_name(f".{path.name}")
        with unfinished.open("wb") as out:
            pq.write_table(output.table, out)
            out.flush()
            os.fsync(out.fileno())
        try:
            os.link(unfinished, path)
        except FileExistsError:
            raise PlanError(f"The file {str(path)!r} exists. Name another directory with --export.") from None
        finally:
            unfinished.unlink()
        paths.append(path)
    sync(directory)
    return paths


def discard_outputs(
    checkpoint: str | Path, *, storage: Any = None, spark: SparkSession | None = None, single_writer: bool = False
) -> int | None:
    """Confirm the pending batch of a stopped query without delivering it. Return the batch; None if there is none.

    A driver on another machine that delivers the batch at this time stops before its next sink. ``storage`` and
    ``single_writer``: as they were passed to ``run``. ``spark`` opens a checkpoint that is not on this machine.
    """
    files = _files(checkpoint, spark, single_writer=single_writer)
    records = record_storage(files, storage, single_writer=single_writer)
    if pending_record(files, records) is None:
        return None
    if isinstance(files, LocalStorage) and is_running(Path(files.location) / "eventide"):
        raise PlanError(
            f"A query is running on the checkpoint {os.fspath(checkpoint)!r}. Stop it, then discard its outputs."
        )
    _, record = _take_over(files, records)
    if record is None:
        return None
    batch: int = record.footer["batch"]
    files.create(f"{_COMMITS}/{batch}", [_spark_commit(files, batch)])
    return batch


def deliver_pending(
    storage: Storage,
    records: Storage,
    recorded: QueryRecord,
    sinks: Iterable[tuple[Output, int, Sink]],
    *,
    query: str,
    spark: SparkSession,
) -> int | None:
    """Write the outputs of the pending batch into sinks, as the pipelines that computed them described them.

    This is for a query whose pipelines have changed. Return the batch; None if there is none, or if the old query still
    runs on this machine: then it delivers the batch itself. A driver on another machine is fenced, as by a new start.
    """
    if pending_record(storage, records) is None:
        return None
    if isinstance(storage, LocalStorage) and is_running(Path(storage.location) / "eventide"):
        return None
    log, record = _take_over(storage, records)
    if record is None:
        return None
    batch: int = record.footer["batch"]
    tables = recorded_tables(log, record)
    for output, depth, sink in sinks:
        table = tables.get((output, depth))
        if table is None:
            continue
        operator = recorded.operators[depth]
        columns = recorded.columns(output, depth) if output != "panes" else {}
        names = [name for name in table.column_names if name in columns or not columns]
        rows = SinkBatch(table.select(names), spark, check_writer=log.check_epoch).with_nulls(columns)
        info = OutputInfo(output, operator.key, operator.mode, operator.row_grain)
        sink.open(rows.schema, info)
        log.check_epoch()
        sink.write(rows, batch, replace(info, query=query))
    return batch


def _take_over(storage: Storage, records: Storage) -> tuple[CommitLog, Record | None]:
    """Fence the drivers of the query, and return the commit log and the record that is pending then.

    An older driver may have finished the batch, and may have written another record, until it was fenced.
    """
    log = CommitLog(storage, records)
    log.take_epoch()
    return log, pending_record(storage, records)


def _files(checkpoint: str | Path, spark: SparkSession | None, *, single_writer: bool = False) -> Storage:
    files = storage_of(checkpoint, spark, single_writer=single_writer)
    check_settled(files)
    placement = placement_of(files)
    if placement is None:
        raise no_state(os.fspath(checkpoint))
    if placement != "driver":
        raise PlanError(
            f"The checkpoint {os.fspath(checkpoint)!r} has no commit records, because its query does not have "
            "state='driver'. With state on the executors, Spark computes an unconfirmed batch again."
        )
    return files


def _spark_commit(storage: Storage, batch: int) -> bytes:
    """Return the content of Spark's commit of a batch. It is the same in all batches of a query with this placement."""
    if storage.exists(f"{_COMMITS}/{batch - 1}"):
        return storage.read(f"{_COMMITS}/{batch - 1}")
    return b'v1\n{"nextBatchWatermarkMs": 0}'
