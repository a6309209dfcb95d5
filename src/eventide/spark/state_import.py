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
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from eventide.operators.redistribution import BucketSnapshot
from eventide.spark.buckets import PARTITIONS, bucket_labels
from eventide.spark.state_processor import state_variables
from eventide.spark.state_store import SparkPageStore, header_facts
from eventide.spark.storage import replace_file
from eventide.state.format import StateHeader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# With a changelog Spark uploads a snapshot some time later; without one, when the batch commits.
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_SCHEMA = "bucket int, depth int, page bigint, body binary"
_ARROW = pa.schema([("bucket", pa.int32()), ("depth", pa.int32()), ("page", pa.int64()), ("body", pa.binary())])
_HEADER_PAGE = 0  # pages are numbered from 1
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


class ImportProcessor(StatefulProcessor):
    """Stores the pages of one operator, and forwards those of later operators."""

    def __init__(self, depth: int, buckets: int, version: str) -> None:
        self._depth, self._buckets, self._version = depth, buckets, version

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the same state variables as the operator does."""
        self._header, self._page_map = state_variables(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Store the pages of one bucket."""
        pages, header, count, others = SparkPageStore(self._page_map), None, 0, []
        for row in rows:
            if row["depth"] != self._depth:
                others.append(Row(**row.asDict()))
            elif row["page"] == _HEADER_PAGE:
                header = bytes(row["body"])
            else:
                pages.put(row["page"], bytes(row["body"]))
                count += 1
        if header is not None:
            in_header = pages.flush()
            body = StateHeader(header, in_header, count - len(in_header)).to_bytes()
            self._header.update((self._version, header_facts(self._buckets, self._depth), body))
        return iter(others)

    def close(self) -> None:
        """Do nothing: the processor holds no resources."""


def import_state(
    spark: SparkSession, operators: Sequence[Sequence[BucketSnapshot]], batch: int, *, work: Path
) -> ImportedState:
    """Write the buckets of each operator into a state store below ``work``, as if ``batch`` had written it.

    Spark writes absolute paths into it: call ``relocate`` when it is in its place.
    """
    (work / _PAGES).mkdir(parents=True)
    for depth, buckets in enumerate(operators):
        _write_pages(work / _PAGES / f"{depth}.parquet", depth, buckets)
    _run(spark, operators, batch, work)
    written = work / _CHECKPOINT
    for file in sorted((written / _STATE).glob("*/*/*")):
        _renumber(file, batch + 1)
    (_, offsets, *_), (version, commit, *_) = (
        (written / log / "0").read_text(encoding="utf-8").splitlines() for log in ("offsets", "commits")
    )
    return ImportedState(written / _STATE, json.loads(offsets)["conf"], version, json.loads(commit))


def _write_pages(path: Path, depth: int, buckets: Sequence[BucketSnapshot]) -> None:
    with pq.ParquetWriter(path, _ARROW, compression="none") as writer:
        for label, bucket in zip(bucket_labels(len(buckets)), buckets, strict=True):
            pages = [(_HEADER_PAGE, bucket.head), *bucket.bodies.items()]
            for start in range(0, len(pages), _ROW_GROUP):
                group = pages[start : start + _ROW_GROUP]
                rows = [{"bucket": label, "depth": depth, "page": page, "body": body} for page, body in group]
                writer.write_batch(pa.RecordBatch.from_pylist(rows, _ARROW))


def _run(spark: SparkSession, operators: Sequence[Sequence[BucketSnapshot]], batch: int, work: Path) -> None:
    """Run the query that stores the pages. It has as many operators as the query that will use them."""
    rows = spark.readStream.schema(_SCHEMA).parquet((work / _PAGES).as_uri())
    for depth, buckets in enumerate(operators):
        store = ImportProcessor(depth, len(buckets), f"{batch}.rescaled")
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
    """Rename a file of version 1 of a store, or its checksum file, to another version."""
    name = re.sub(r"^(\.?)1(?=[_.])", rf"\g<1>{version}", file.name)
    if name != file.name and file.is_file():
        file.rename(file.with_name(name))


def relocate(state: Path, checkpoint: Path) -> None:
    """Let the metadata of the operators name the schema files in ``checkpoint``."""
    for file in state.glob("*/_metadata/v2/[0-9]*"):
        _relocate(file, checkpoint)


def _relocate(file: Path, checkpoint: Path) -> None:
    version, text = file.read_text(encoding="utf-8").split("\n", 1)
    content = json.loads(text)
    for store in content["stateStoreInfo"]:
        paths = [path.rpartition(f"/{_STATE}/")[2] for path in store["stateSchemaFilePaths"]]
        store["stateSchemaFilePaths"] = [f"file:{checkpoint.absolute()}/{_STATE}/{path}" for path in paths]
    replace_file(file, f"{version}\n{json.dumps(content)}")
