"""What a checkpoint was started with is compared on the driver, before a query starts."""

from __future__ import annotations

from pathlib import Path

import pytest

import eventide as ev
from eventide.spark.checkpoint_storage import may_have_records
from eventide.spark.query_record import OperatorRecord, QueryRecord, check_record, read_record, write_record
from eventide.spark.storage import LocalStorage


def record(*windows: str) -> QueryRecord:
    operators = (OperatorRecord({"window": window}, 2, {"ts": "timestamp"}, {}) for window in windows)
    return QueryRecord(tuple(operators), "driver")


def test_a_record_is_read_once_a_batch_was_committed(tmp_path: Path) -> None:
    files = LocalStorage(tmp_path)
    assert read_record(files) is None
    write_record(files, record("tumbling(1m)"))
    assert read_record(files) is None  # nothing depends on it yet
    files.replace("commits/0", b"v1\n{}")
    assert read_record(files) == record("tumbling(1m)")


def test_another_plan_is_rejected_with_the_checkpoint_and_what_changed() -> None:
    with pytest.raises(ev.PlanError) as failure:
        check_record(record("tumbling(1m)"), record("tumbling(5m)"), "checkpoints/revenue")
    assert str(failure.value).splitlines()[:2] == [
        "The checkpoint 'checkpoints/revenue' belongs to another pipeline:",
        "  the window changed from tumbling(1m) to tumbling(5m)",
    ]


def test_in_a_chain_the_pipeline_is_named() -> None:
    with pytest.raises(ev.PlanError, match="pipeline 2: the window changed from b to c"):
        check_record(record("a", "b"), record("a", "c"), "x")
    with pytest.raises(ev.PlanError, match="the number of pipelines changed from 1 to 2"):
        check_record(record("a"), record("a", "b"), "x")


def test_the_same_plan_passes() -> None:
    check_record(record("a"), record("a"), "x")


def test_a_record_of_another_format_is_rejected_with_its_number() -> None:
    text = record("a").to_text().replace('"format": 1', '"format": 9')
    with pytest.raises(ev.DataError, match="has format 9, but this version of Eventide reads format 1"):
        QueryRecord.from_text(text)


def test_a_record_of_a_batch_that_spark_has_not_committed_counts_in_the_other_placement(tmp_path: Path) -> None:
    files = LocalStorage(tmp_path)
    write_record(files, record("tumbling(1m)"))
    assert not may_have_records(files)
    files.create("eventide/commits/0", [b"record"])
    assert may_have_records(files)


def test_records_in_another_store_count_because_they_cannot_be_looked_up(tmp_path: Path) -> None:
    files = LocalStorage(tmp_path)
    files.create("eventide/storage.json", [b"{}"])
    assert may_have_records(files)
