"""The state of a query as its checkpoint stores it, by operator: in commit records or in the state store of Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eventide.spark.commit_log import CommitLog
from eventide.spark.processor import HEAD, PAGES
from eventide.spark.record_pages import RecordPages
from eventide.state.heads import Head
from eventide.state.record import FORMAT as RECORD_FORMAT
from eventide.state.record import Record, Span

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class StoredOperator:
    """One operator: what it wrote, by bucket. In the driver there is one bucket."""

    depth: int
    format: int
    buckets: int
    heads: Mapping[int, bytes]
    pages: Mapping[int, Mapping[int, bytes]]


def read_driver_state(log: CommitLog, record: Record) -> list[StoredOperator]:
    """Return the operators of a query whose state is in the driver."""
    operators = []
    for depth, stage in enumerate(record.footer["stages"]):
        pages = RecordPages(log, record.part(Span(*stage["manifest"]))).bodies()
        head = record.part(Span(*stage["head"]))
        operators.append(StoredOperator(depth, RECORD_FORMAT, 1, {0: head}, {0: pages}))
    return operators


def read_executor_state(spark: SparkSession, checkpoint: str, batch: int | None = None) -> list[StoredOperator]:
    """Return the operators of a query whose state is on the executors, after ``batch`` (default: the last one)."""
    metadata = spark.read.format("state-metadata").load(checkpoint).where("operatorName LIKE 'transformWithState%'")
    rows = metadata.selectExpr("operatorId", "maxBatchId").distinct().orderBy("operatorId").collect()
    if not rows:
        return []
    if batch is None:
        batch = min(row["maxBatchId"] for row in rows)  # all of the same, while the query goes on
    operators = [_executor_operator(spark, checkpoint, batch, row["operatorId"]) for row in rows]
    return sorted((operator for operator in operators if operator is not None), key=lambda operator: operator.depth)


def _executor_operator(spark: SparkSession, checkpoint: str, batch: int, number: int) -> StoredOperator | None:
    rows = _variable(spark, checkpoint, batch, number, HEAD)
    if not rows:
        return None
    heads = {row["key"]["bucket"]: Head.from_bytes(bytes(row["value"]["body"])) for row in rows}
    pages = {bucket: dict(head.pages) for bucket, head in heads.items()}
    if any(head.elsewhere != 0 for head in heads.values()):
        for bucket, page, body in _pages(spark, checkpoint, batch, number):
            pages[bucket][page] = body
    about = json.loads(rows[0]["value"]["about"])
    newest = max(head.format for head in heads.values())
    bodies = {bucket: head.body for bucket, head in heads.items()}
    return StoredOperator(about["depth"], newest, about["buckets"], bodies, pages)


def _variable(spark: SparkSession, checkpoint: str, batch: int, operator: int, name: str) -> list[Any]:
    reader = spark.read.format("statestore").option("operatorId", operator).option("stateVarName", name)
    reader = reader.option("batchId", batch)
    if name == PAGES:
        reader = reader.option("flattenCollectionTypes", "true")
    return reader.load(checkpoint).collect()


def _pages(spark: SparkSession, checkpoint: str, batch: int, operator: int) -> Iterator[tuple[int, int, bytes]]:
    """The pages in the map: bucket, number and body."""
    for row in _variable(spark, checkpoint, batch, operator, PAGES):
        yield row["key"]["bucket"], row["user_map_key"]["page"], bytes(row["user_map_value"]["body"])
