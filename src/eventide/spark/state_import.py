"""Writes state into Spark's state store without running the query that uses it.

Spark writes its state store only from a streaming query. So a query of one batch reads pages and stores them, with the
same operators and the same state variables as the query that will use them. Its store has version 1. The store that
batch N leaves has version N + 1, so the files of version 1 get that number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from eventide.operators.redistribution import BucketState
from eventide.spark.buckets import labels
from eventide.spark.partitions import PARTITIONS
from eventide.spark.processor import state_variables
from eventide.spark.replaced_file import replace_file
from eventide.spark.storing import StorePages
from eventide.state.heads import Head

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# With it a snapshot is uploaded some time later; without it, when the batch commits.
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_SCHEMA = "bucket int, depth int, page bigint, body binary"
_ARROW = pa.schema([("bucket", pa.int32()), ("depth", pa.int32()), ("page", pa.int64()), ("body", pa.binary())])
_HEAD_PAGE = 0  # pages are numbered from 1
_LOT = 64  # pages in one row group
_STATE = "state"
_PAGES = "pages"
_CHECKPOINT = "checkpoint"


@dataclass(frozen=True)
class ImportedState:
    """A state store that is ready to be put into a checkpoint, and what Spark logged when it wrote it."""

    directory: Path
    conf: Mapping[str, str]  # of the offset log: the settings that the store depends on
    commit_version: str
    commit: Mapping[str, Any]  # of the commit log: the ids of the stores


class StoreImported(StatefulProcessor):
    """Stores the pages of one operator, and passes on those of the operators behind it."""

    def __init__(self, depth: int, buckets: int, version: str) -> None:
        self._depth, self._buckets, self._version = depth, buckets, version

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the same state as the operator does."""
        self._head, self._pages = state_variables(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Store the pages of one bucket."""
        pages, head, count, others = StorePages(self._pages), None, 0, []
        for row in rows:
            if row["depth"] != self._depth:
                others.append(Row(**row.asDict()))
            elif row["page"] == _HEAD_PAGE:
                head = bytes(row["body"])
            else:
                pages.put(row["page"], bytes(row["body"]))
                count += 1
        if head is not None:
            in_head = pages.settled()
            about = {"buckets": self._buckets, "promises": {}, "depth": self._depth, "before": ()}
            body = Head(head, in_head, count - len(in_head)).to_bytes()
            self._head.update((self._version, json.dumps(about), body))
        return iter(others)

    def close(self) -> None:
        """Nothing is held."""


def import_state(
    spark: SparkSession, operators: Sequence[Sequence[BucketState]], batch: int, *, work: Path, checkpoint: Path
) -> ImportedState:
    """Write the buckets of each operator into a state store below ``work``, as batch ``batch`` would leave it.

    ``checkpoint`` is where the store will be: Spark writes absolute paths into it.
    """
    (work / _PAGES).mkdir(parents=True)
    for depth, buckets in enumerate(operators):
        _write_pages(work / _PAGES / f"{depth}.parquet", depth, buckets)
    _run(spark, operators, batch, work)
    written = work / _CHECKPOINT
    for file in sorted((written / _STATE).glob("*/*/*")):
        _renumber(file, batch + 1)
    for file in (written / _STATE).glob("*/_metadata/v2/[0-9]*"):
        _relocate(file, checkpoint)
    (_, about, *_), (version, commit, *_) = (
        (written / log / "0").read_text(encoding="utf-8").splitlines() for log in ("offsets", "commits")
    )
    return ImportedState(written / _STATE, json.loads(about)["conf"], version, json.loads(commit))


def _write_pages(path: Path, depth: int, buckets: Sequence[BucketState]) -> None:
    with pq.ParquetWriter(path, _ARROW, compression="none") as writer:
        for label, bucket in zip(labels(len(buckets)), buckets, strict=True):
            pages = [(_HEAD_PAGE, bucket.head), *bucket.bodies.items()]
            for start in range(0, len(pages), _LOT):
                lot = pages[start : start + _LOT]
                rows = [{"bucket": label, "depth": depth, "page": page, "body": body} for page, body in lot]
                writer.write_batch(pa.RecordBatch.from_pylist(rows, _ARROW))


def _run(spark: SparkSession, operators: Sequence[Sequence[BucketState]], batch: int, work: Path) -> None:
    """Run the query that stores the pages: as many operators in a row as the query has that will use them."""
    rows = spark.readStream.schema(_SCHEMA).parquet((work / _PAGES).as_uri())
    for depth, buckets in enumerate(operators):
        store = StoreImported(depth, len(buckets), f"{batch}.moved")
        rows = rows.groupBy("bucket").transformWithState(store, _SCHEMA, "Append", "None")
    partitions = max(len(buckets) for buckets in operators)
    writer = rows.writeStream.outputMode("append").format("noop").trigger(availableNow=True)
    with _settings(spark, {PARTITIONS: str(partitions), _CHANGELOG: "false"}):
        writer.option("checkpointLocation", (work / _CHECKPOINT).as_uri()).start().awaitTermination()


@contextmanager
def _settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    explicit = spark.conf.getAll
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            if name in explicit:
                spark.conf.set(name, explicit[name])
            else:
                spark.conf.unset(name)


def _renumber(file: Path, version: int) -> None:
    """Give a file of version 1 of a store another version; its check sum goes with it."""
    name = re.sub(r"^(\.?)1(?=[_.])", rf"\g<1>{version}", file.name)
    if name != file.name and file.is_file():
        file.rename(file.with_name(name))


def _relocate(file: Path, checkpoint: Path) -> None:
    """Let the metadata of an operator name the schema files in the checkpoint where they will be."""
    version, text = file.read_text(encoding="utf-8").split("\n", 1)
    content = json.loads(text)
    for store in content["stateStoreInfo"]:
        paths = [path.rpartition(f"/{_STATE}/")[2] for path in store["stateSchemaFilePaths"]]
        store["stateSchemaFilePaths"] = [f"file:{checkpoint.absolute()}/{_STATE}/{path}" for path in paths]
    replace_file(file, f"{version}\n{json.dumps(content)}")
