"""How rows reach the driver, as far as their number decides: as rows, as stamps of tasks, or in pieces."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import polars as pl
import pyarrow as pa
import pytest

import eventide as ev
from eventide.errors import DataError
from eventide.operators.factory import operator_of
from eventide.spark import driver_input
from eventide.spark.dataflow import SparkInput
from eventide.spark.driver_dataflow import needs_workers
from eventide.spark.driver_input import Collected, RowInput, read_pages
from eventide.spark.driver_scan import ScanInput
from eventide.spark.shuffle_pages import Stage
from eventide.spark.source_log import BatchLog
from eventide.spark.stamp import stamp_to_pages
from eventide.spark.storage import LocalStorage
from eventide.time import MIN

PLAN = (
    ev.stream(time="t", watermark=ev.bounded_delay("1 second")).window(ev.tumbling("1 second")).agg(n=ev.count()).plan
)
SCHEMA: dict[str, pl.DataType] = {"t": pl.Int64()}


class Batch:
    """Stands for a DataFrame with some rows, and notes how they were asked for."""

    sparkSession = None  # noqa: N815

    def __init__(self, rows: int, asked: list[str], failure: str = "") -> None:
        self.rows = rows
        self.asked = asked
        self.failure = failure

    def toArrow(self) -> pa.Table:  # noqa: N802
        if self.failure:
            raise RuntimeError(self.failure)
        self.asked.append("rows")
        return pa.table({"e0c0": pa.array(range(self.rows), pa.int64())})

    def mapInArrow(self, function: Any, schema: Any) -> Batch:  # noqa: N802
        self.asked.append("stamps")
        return self


@pytest.fixture
def asked() -> list[str]:
    return []


@pytest.fixture(params=["stamps", "pieces"])
def large(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, asked: list[str]) -> str:
    """How large batches travel: with and without Eventide on the workers."""
    operator = operator_of(PLAN, SCHEMA)
    checks: list[Any] = []

    def stamped(batch: Batch, *arguments: Any) -> Collected:
        stamp = operator.stamp(pl.DataFrame({"t": range(batch.rows)}, schema=SCHEMA), 0, MIN)
        return Collected([stamp], size=8 * batch.rows)

    def pieces(batch: Batch) -> list[pa.Table]:
        asked.append("pieces")
        table = pa.table({"e0c0": pa.array(range(batch.rows), pa.int64())})
        return [table.slice(0, batch.rows // 2), table.slice(batch.rows // 2)]

    def look(spark: Any) -> bool:
        checks.append(spark)
        assert len(checks) == 1, "workers are asked once"
        return bool(request.param == "stamps")

    monkeypatch.setattr(driver_input, "collect_pages", lambda pages: pages)
    monkeypatch.setattr(driver_input, "read_pages", stamped)
    monkeypatch.setattr(driver_input, "row_pieces", pieces)
    monkeypatch.setattr(driver_input, "workers_have_eventide", look)
    return str(request.param)


@pytest.fixture
def rows_in() -> RowInput:
    return RowInput(Stage("stage", PLAN, (SCHEMA,), 1), [SparkInput(None, SCHEMA)])  # type: ignore[arg-type]


def collect(rows_in: RowInput, batch: Batch, messages: int | None = None) -> int:
    log = SimpleNamespace(time=0, messages=messages, file_sizes={})
    return sum(stamp.rows for stamp in rows_in.collect(batch, log, MIN).stamps)  # type: ignore[arg-type]


def test_a_first_batch_of_unknown_size_is_taken_for_large_and_the_next_goes_by_it(
    rows_in: RowInput, large: str, asked: list[str]
) -> None:
    assert [collect(rows_in, Batch(10, asked)) for _ in range(2)] == [10, 10]
    assert asked == [large, "rows"]


def test_a_batch_after_a_large_one_is_taken_for_large(
    rows_in: RowInput, large: str, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_input, "_LARGE", 1000)
    assert [collect(rows_in, Batch(rows, asked)) for rows in (200, 20, 20)] == [200, 20, 20]
    assert asked == [large, large, "rows"]


def test_a_batch_without_rows_says_nothing_of_the_next(
    rows_in: RowInput, large: str, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_input, "_LARGE", 1000)
    batches = [(200, None), (0, 0), (20, None)]
    assert [collect(rows_in, Batch(rows, asked), messages) for rows, messages in batches] == [200, 0, 20]
    assert asked == [large, "rows", large]


def test_files_that_only_start_batches_have_no_size(tmp_path: Path) -> None:
    for name, text in {
        "offsets/0": 'v1\n{"batchTimestampMs": 0}\n-\n{"logOffset": 0}',
        "sources/1/0": 'v1\n{"path": "s3a://shop/checkpoint/eventide/control/wake-1", "timestamp": 0, "batchId": 0}',
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    log = BatchLog(LocalStorage(tmp_path), 0, 0)
    assert (log.messages, log.file_sizes) == (0, {})


class Echo(ev.RowProcessor):
    """Emits each row."""

    state_schema: ClassVar = {"n": pl.Int64}

    def process_row(self, edge: str, row: dict[str, Any], state: dict[str, Any]) -> Any:
        return row


async def look_up(row: dict[str, Any]) -> dict[str, Any]:
    return {"country": "de"}


STREAM = ev.stream(time="t", watermark=ev.bounded_delay("1 second"))
SLOW = STREAM.map_async(look_up, output={"country": pl.String}, across_bundles=True)
KEYED = ev.stream(time="t", key="k", watermark=ev.bounded_delay("1 second"))
TRANSPORTS = {
    "aggregates": (STREAM.window(ev.tumbling("1 second")).agg(n=ev.count()), "stamps"),
    "row windows": (STREAM.window(ev.rows(2)).agg(n=ev.count()), "stamps with all rows"),
    "a processor": (STREAM.process(Echo(), output={"t": pl.Int64}), "stamps with all rows"),
    "a join": (ev.join(KEYED, KEYED, within=("0 seconds", "1 second")), "stamps with all rows"),
    "a window join": (ev.window_join(KEYED, KEYED, window=ev.tumbling("1 second")), "stamps with all rows"),
    "calls across batches": (SLOW.window(ev.tumbling("1 second")).agg(n=ev.count()), "rows in pieces"),
}


@pytest.mark.parametrize("name", TRANSPORTS)
def test_what_travels_of_a_large_batch_is_explained(name: str) -> None:
    pipeline, large = TRANSPORTS[name]
    schemas = (SCHEMA | {"k": pl.String()},) * len(pipeline.plan.edges)
    inputs: Any = [SparkInput(None, schema) for schema in schemas]  # type: ignore[arg-type]
    assert RowInput(Stage(name, pipeline.plan, schemas, 1), inputs).transport == f"rows up to 64 MB, then {large}"


def test_a_known_size_decides(rows_in: RowInput, large: str, asked: list[str]) -> None:
    for messages in (1000, 1 << 40):
        collect(rows_in, Batch(10, asked), messages)
    assert asked == ["rows", large]


def test_more_than_spark_collects_travels_as_a_large_batch(rows_in: RowInput, large: str, asked: list[str]) -> None:
    assert collect(rows_in, Batch(10, asked, "is bigger than spark.driver.maxResultSize"), 1000) == 10
    assert asked == [large]


def test_other_failures_stay(rows_in: RowInput, asked: list[str]) -> None:
    with pytest.raises(RuntimeError, match="the source is away"):
        collect(rows_in, Batch(10, asked, "the source is away"), 1000)


@pytest.mark.parametrize("known", [True, False], ids=["the watermark arrived", "the watermark was lost"])
def test_rows_of_a_task_are_processed_whether_or_not_it_learns_the_watermark(known: bool) -> None:
    stage = Stage("known" if known else "lost", PLAN, (SCHEMA,), 1)
    rows, watermark = pl.DataFrame({"t": [1_000_000, 9_000_000]}, schema=SCHEMA), 5_000_000
    pages = stamp_to_pages(stage, rows, 0, 0, watermark if known else None)
    collected = read_pages([shuffled.row() for shuffled in pages], stage, 0, watermark)
    (stamp,) = collected.stamps
    assert stamp.rows == 2
    assert stamp.stamped.late is not None and stamp.stamped.late.height == 1
    assert stamp.summary.height == 1


def test_a_page_that_the_driver_does_not_know_is_rejected() -> None:
    stage = Stage("stage", PLAN, (SCHEMA,), 1)
    pages = [{"kind": "cells", "body": b"", "detail": None}]
    with pytest.raises(DataError, match=r"a page of the kind 'cells'.* same version of pyspark-eventide"):
        read_pages(pages, stage, 0, MIN)


def test_workers_need_eventide_only_for_scans_and_noted_time() -> None:
    assert not needs_workers(PLAN, [object()])  # type: ignore[list-item]


def test_the_driver_of_a_cluster_reads_small_batches_of_remote_files() -> None:
    scan = object.__new__(ScanInput)
    scan._reads_all = False
    sizes: list[dict[str, int | None]] = [{"s3a://shop/a": size} for size in (1000, 1 << 30, None)] + [{"/a": 1000}]
    reads = [scan._reads(SimpleNamespace(file_sizes=files)) for files in sizes]  # type: ignore[arg-type]
    assert reads == [True, False, False, False]
