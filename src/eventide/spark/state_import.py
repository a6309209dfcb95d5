"""Import state into Spark's state store without running the query that uses it.

Only a streaming query can write Spark's state store. So a query with one batch reads pages and stores them, with the
same operators and state variables as the query that will use them. Its store has version 1. After batch N a store has
version N + 1, so the files of version 1 are renamed.
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

from eventide.operators.redistribution import BucketSnapshot, DividedState
from eventide.spark.buckets import PARTITIONS, bucket_labels
from eventide.spark.state_processor import HEADER_PAGE, ImportProcessor
from eventide.spark.state_store import header_facts
from eventide.spark.storage import replace_file

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


@dataclass(frozen=True)
class ImportedState:
    """A state store for a checkpoint, and what Spark logged when it wrote the store."""

    directory: Path
    conf: Mapping[str, str]  # from the offset log: settings that the store depends on
    commit_version: str
    commit: Mapping[str, Any]  # from the commit log: the ids of the stores


@dataclass(frozen=True)
class _Store:
    """The state of one stateful operator of Spark: an operator's buckets, or their tracker."""

    depth: int
    operator_buckets: int
    parts: Sequence[BucketSnapshot]  # by bucket
    tracks_all: bool = False

    @property
    def facts(self) -> str:
        return header_facts(self.operator_buckets, self.depth, tracks_all=self.tracks_all)


def import_state(spark: SparkSession, operators: Sequence[DividedState], batch: int, *, work: Path) -> ImportedState:
    """Write the state of each operator into a state store below ``work``, as if ``batch`` had written it.

    Spark writes absolute paths into it: call ``relocate`` when it is in its place.
    """
    (work / _PAGES).mkdir(parents=True)
    stores = _stores(operators)
    for number, store in enumerate(stores):
        _write_pages(work / _PAGES / f"{number}.parquet", number, store.parts)
    _run(spark, stores, batch, work)
    written = work / _CHECKPOINT
    for file in sorted((written / _STATE).glob("*/*/*")):
        _renumber(file, batch + 1)
    (_, offsets, *_), (version, commit, *_) = (
        (written / log / "0").read_text(encoding="utf-8").splitlines() for log in ("offsets", "commits")
    )
    return ImportedState(written / _STATE, json.loads(offsets)["conf"], version, json.loads(commit))


def _stores(operators: Sequence[DividedState]) -> list[_Store]:
    """Return the state of each stateful operator of Spark, in their order in the query."""
    stores = []
    for depth, state in enumerate(operators):
        count = len(state.buckets)
        if state.tracker is not None:
            stores.append(_Store(depth, count, [state.tracker], tracks_all=True))
        stores.append(_Store(depth, count, state.buckets))
    return stores


def _write_pages(path: Path, number: int, buckets: Sequence[BucketSnapshot]) -> None:
    with pq.ParquetWriter(path, _ARROW, compression="none") as writer:
        for label, bucket in zip(bucket_labels(len(buckets)), buckets, strict=True):
            pages = [(HEADER_PAGE, bucket.head), *bucket.bodies.items()]
            for start in range(0, len(pages), _ROW_GROUP):
                group = pages[start : start + _ROW_GROUP]
                rows = [{"bucket": label, "store": number, "page": page, "body": body} for page, body in group]
                writer.write_batch(pa.RecordBatch.from_pylist(rows, _ARROW))


def _run(spark: SparkSession, stores: Sequence[_Store], batch: int, work: Path) -> None:
    """Run the query that stores the pages. It has as many operators as the query that will use them."""
    rows = spark.readStream.schema(_SCHEMA).parquet((work / _PAGES).as_uri())
    for number, store in enumerate(stores):
        processor = ImportProcessor(number, store.facts, f"{batch}.rescaled")
        rows = rows.groupBy("bucket").transformWithState(processor, _SCHEMA, "Append", "None")
    partitions = max(store.operator_buckets for store in stores)
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
    """Rename a file of version 1 of a store, or its checksum file, to another version."""
    name = re.sub(r"^(\.?)1(?=[_.])", rf"\g<1>{version}", file.name)
    if name != file.name and file.is_file():
        file.rename(file.with_name(name))


def relocate(state: Path, checkpoint: Path) -> None:
    """Point the metadata of the operators to the schema files in ``checkpoint``."""
    for file in state.glob("*/_metadata/v2/[0-9]*"):
        _relocate(file, checkpoint)


def _relocate(file: Path, checkpoint: Path) -> None:
    version, text = file.read_text(encoding="utf-8").split("\n", 1)
    content = json.loads(text)
    for store in content["stateStoreInfo"]:
        paths = [path.rpartition(f"/{_STATE}/")[2] for path in store["stateSchemaFilePaths"]]
        store["stateSchemaFilePaths"] = [f"file:{checkpoint.absolute()}/{_STATE}/{path}" for path in paths]
    replace_file(file, f"{version}\n{json.dumps(content)}")
