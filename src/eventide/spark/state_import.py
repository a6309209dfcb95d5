"""Import state into Spark's state store without running the query that uses it.

Only a streaming query can write Spark's state store. So a query with one batch reads pages and stores them, with the
same operators and state variables as the query that will use them. Its store has version 1. After batch N a store has
version N + 1, so the files of version 1 are renamed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from eventide.operators.redistribution import BucketSnapshot, BucketStates
from eventide.spark.buckets import PARTITIONS, bucket_labels, changed_settings
from eventide.spark.query import understood
from eventide.spark.state_processor import HEADER_PAGE, ImportProcessor
from eventide.spark.state_store import header_facts
from eventide.spark.storage import DirectoryStorage, replace_logged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# With a changelog Spark uploads a snapshot some time later; without one, when the batch commits.
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_SCHEMA = "bucket int, store int, page bigint, body binary"
_ARROW = pa.schema([("bucket", pa.int32()), ("store", pa.int32()), ("page", pa.int64()), ("body", pa.binary())])
_ROW_GROUP = 64  # pages
_STATE = "state"
_PAGES = "pages"
_CHECKPOINT = "checkpoint"
_VERSION_1 = re.compile(r"(?P<folder>\d+/\d+/\.?)1(?P<rest>[_.][^/]*)")  # operator, partition, file
_METADATA = re.compile(r"\d+/_metadata/v2/\d+")


@dataclass(frozen=True)
class ImportedState:
    """A state store for a checkpoint, and what Spark logged when it wrote the store."""

    folder: str  # in the directory of the import
    conf: Mapping[str, str]  # from the offset log: settings that the store depends on
    commit_version: str
    commit: Mapping[str, Any]  # from the commit log: the ids of the stores


@dataclass(frozen=True)
class _Store:
    """A stateful operator of Spark: the buckets of an operator, or their tracker."""

    depth: int
    operator_buckets: int
    tracks_all: bool = False

    @property
    def facts(self) -> str:
        return header_facts(self.operator_buckets, self.depth, tracks_all=self.tracks_all)


class StateImport:
    """Writes the state of operators into a state store in the directory ``work``, as if ``batch`` had written it."""

    def __init__(self, spark: SparkSession, batch: int, work: DirectoryStorage) -> None:
        self._spark = spark
        self._batch = batch
        self._work = work
        self._stores: list[_Store] = []

    def add(self, operator: BucketStates) -> None:
        """Write the pages of the next operator of the query, bucket by bucket."""
        depth = len({store.depth for store in self._stores})
        if operator.tracker is not None:
            self._stores.append(_Store(depth, operator.count, tracks_all=True))
            self._put(bucket_labels(1)[0], operator.tracker)
        self._stores.append(_Store(depth, operator.count))
        for label, bucket in zip(bucket_labels(operator.count), operator.buckets, strict=True):
            self._put(label, bucket)

    def run(self) -> ImportedState:
        """Store all pages. Spark writes absolute paths: call ``relocate`` when the store is in its place."""
        self._run()
        written = self._work.below(_CHECKPOINT)
        if self._batch:  # otherwise version 1 is the one to write
            _renumber(written, self._batch + 1)
        (_, offsets, *_), (version, commit, *_) = (
            written.read(f"{log}/0").decode().splitlines() for log in ("offsets", "commits")
        )
        return ImportedState(f"{_CHECKPOINT}/{_STATE}", json.loads(offsets)["conf"], version, json.loads(commit))

    def _put(self, label: int, bucket: BucketSnapshot) -> None:
        number = len(self._stores) - 1
        self._work.replace(f"{_PAGES}/{number}-{label}.parquet", _pages_file(number, label, bucket))

    def _run(self) -> None:
        """Run the query that stores the pages. It has as many operators as the query that will use them."""
        rows = self._spark.readStream.schema(_SCHEMA).parquet(f"{self._work.address}/{_PAGES}")
        for number, store in enumerate(self._stores):
            processor = ImportProcessor(number, store.facts, f"{self._batch}.rescaled")
            rows = rows.groupBy("bucket").transformWithState(processor, _SCHEMA, "Append", "None")
        partitions = max(store.operator_buckets for store in self._stores)
        writer = rows.writeStream.outputMode("append").format("noop").trigger(availableNow=True)
        with changed_settings(self._spark, {PARTITIONS: str(partitions), _CHANGELOG: "false"}):
            query = writer.option("checkpointLocation", f"{self._work.address}/{_CHECKPOINT}").start()
            try:
                query.awaitTermination()
            except Exception as failure:
                error = understood(failure)
                if error is failure:
                    raise
                raise error from None


def _pages_file(number: int, label: int, bucket: BucketSnapshot) -> bytes:
    file = pa.BufferOutputStream()
    with pq.ParquetWriter(file, _ARROW, compression="none") as writer:
        pages = [(HEADER_PAGE, bucket.head), *bucket.bodies.items()]
        for start in range(0, len(pages), _ROW_GROUP):
            group = pages[start : start + _ROW_GROUP]
            rows = [{"bucket": label, "store": number, "page": page, "body": body} for page, body in group]
            writer.write_batch(pa.RecordBatch.from_pylist(rows, _ARROW))
    return bytes(file.getvalue())


def _renumber(files: DirectoryStorage, version: int) -> None:
    """Rename the files of version 1 of all stores, and then their checksum files, to another version."""
    for name in sorted(files.walk(_STATE), key=lambda name: "/." in name):
        if first := _VERSION_1.fullmatch(name):
            files.move(f"{_STATE}/{name}", f"{_STATE}/{first['folder']}{version}{first['rest']}")


def relocate(files: DirectoryStorage, checkpoint: DirectoryStorage) -> None:
    """Point the metadata of the operators below ``files`` to the schema files in ``checkpoint``."""
    for name in files.walk(_STATE):
        if _METADATA.fullmatch(name):
            _relocate(files, f"{_STATE}/{name}", checkpoint)


def _relocate(files: DirectoryStorage, name: str, checkpoint: DirectoryStorage) -> None:
    version, text = files.read(name).decode().split("\n", 1)
    content = json.loads(text)
    for store in content["stateStoreInfo"]:
        paths = [path.rpartition(f"/{_STATE}/")[2] for path in store["stateSchemaFilePaths"]]
        store["stateSchemaFilePaths"] = [f"{checkpoint.address}/{_STATE}/{path}" for path in paths]
    replace_logged(files, name, f"{version}\n{json.dumps(content)}")
