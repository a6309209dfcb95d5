"""The contract of storages on Hadoop file systems: another scheme than ``file:``, and HDFS."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import eventide as ev
from eventide import _jvm
from eventide.spark import source_log
from eventide.spark.checkpoint_storage import storage_of
from eventide.spark.hadoop_storage import HadoopStorage, file_sizes
from eventide.spark.source_log import BatchLog
from eventide.spark.storage import LocalStorage
from tests.driver.directory_contract import *  # noqa: F403
from tests.driver.directory_contract import Open
from tests.driver.storage_contract import *  # noqa: F403
from tests.spark.remote import hdfs_address, remote, viewfs

__all__ = ["hdfs_address", "remote"]


@pytest.fixture
def opened(request: pytest.FixtureRequest, spark: SparkSession, remote: str) -> Open:
    if remote.startswith("viewfs") and request.node.get_closest_marker("exclusive"):
        pytest.skip("this view is of a local disk, where a rename overwrites")
    return lambda: HadoopStorage(f"{remote}/checkpoint", spark)


@pytest.fixture
def view(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    with viewfs(spark, tmp_path) as address:
        yield address


def test_an_address_with_a_scheme_is_read_by_hadoop(spark: SparkSession, view: str) -> None:
    storage = storage_of(f"{view}/a, b/", spark)
    assert storage.create("x/1", [b"one"]) and storage.create("x/2", [b"two"])
    assert isinstance(storage, HadoopStorage) and storage.location == f"{view}/a, b"
    assert sorted(storage.list("x")) == ["1", "2"]


def test_a_folder_with_entries_of_any_class_is_listed(
    spark: SparkSession, view: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = storage_of(view, spark)
    storage.create("x/1", [b"one"])
    assert storage.list("x") == ["1"]
    monkeypatch.setattr(HadoopStorage, "_entry_class", lambda *_: "org.apache.hadoop.fs.s3a.S3AFileStatus")
    assert storage.list("x") == ["1"]


def test_a_path_without_a_scheme_is_on_the_default_file_system(spark: SparkSession, view: str) -> None:
    spark.conf.set("fs.defaultFS", view)
    _jvm.default_scheme.cache_clear()
    try:
        storage = storage_of("/data/checkpoint", spark)
        assert storage.create("x/1", [b"one"])
        assert storage.location.startswith("viewfs:") and isinstance(storage, HadoopStorage)
    finally:
        spark.conf.unset("fs.defaultFS")
        _jvm.default_scheme.cache_clear()


def test_a_file_system_that_spark_does_not_know_is_reported(spark: SparkSession) -> None:
    with pytest.raises(ev.PlanError, match=r"cannot open the file system of 'nofs:.*No FileSystem for scheme"):
        storage_of("nofs://shop/x", spark)


def test_an_error_of_hadoop_names_the_file(spark: SparkSession, view: str) -> None:
    storage = HadoopStorage(view, spark)
    storage.create("a", [b"a file"])
    with pytest.raises(OSError, match=rf"{view}/a/1: .*(ParentNotDirectory|FileAlreadyExists|not a directory)"):
        storage.create("a/1", [b"below it"])


def test_the_sizes_of_source_files_on_another_file_system_are_known(
    spark: SparkSession, view: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    HadoopStorage(view, spark).create("in/a b.parquet", [b"x" * 1000])
    place = LocalStorage(tmp_path / "checkpoint")
    file = json.dumps({"path": f"{view}/in/a%20b.parquet", "timestamp": 0, "batchId": 0})
    place.create("offsets/0", [b'v1\n{"batchTimestampMs": 0}\n{"logOffset": 0}'])
    place.create("sources/0/0", [f"v1\n{file}".encode()])
    log = BatchLog(place, 0, 0, spark)
    assert log.files(0) == [f"{view}/in/a b.parquet"]
    assert log.file_sizes == {f"{view}/in/a b.parquet": 1000}
    monkeypatch.setattr(source_log, "_LOOKED_UP", 0)
    assert set(BatchLog(place, 0, 0, spark).file_sizes.values()) == {None}, "many files would cost a request each"


def test_the_size_of_a_file_that_is_gone_is_not_known(spark: SparkSession, view: str) -> None:
    assert file_sizes([f"{view}/none", "nofs://shop/x"], spark) == {f"{view}/none": None, "nofs://shop/x": None}


def test_a_full_disk_leaves_nothing(spark: SparkSession, view: str, tmp_path: Path) -> None:
    storage = HadoopStorage(view, spark)

    def full(stream: Any, pieces: Any) -> None:
        stream.close()
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(storage, "_write", full)
        storage.create("a/1", [b"x"])
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []


def test_an_object_store_without_conditional_puts_is_rejected_or_needs_a_single_writer(
    spark: SparkSession, view: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventide.spark.hadoop_storage._OBJECT_STORES", frozenset({"viewfs"}))
    with pytest.raises(ev.PlanError, match=r"run\(single_writer=True\)"):
        HadoopStorage(view, spark).create("a/1", [b"one"])
    storage = HadoopStorage(view, spark, single_writer=True)
    assert storage.create("a/1", [b"one"]) and not storage.create("a/1", [b"two"])
    storage.replace("a/1", b"three")
    assert storage.read("a/1") == b"three"


def test_a_folder_of_an_object_store_moves_file_by_file_and_can_be_continued(
    spark: SparkSession, view: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventide.spark.hadoop_storage._OBJECT_STORES", frozenset({"viewfs"}))
    files = HadoopStorage(view, spark, single_writer=True)
    for name in ("new/0/a", "new/1/a", "new/b", "state/0/a"):  # the first file was copied, and not deleted yet
        files.create(name, [name.encode() if name != "state/0/a" else b"new/0/a"])
    files.move("new", "state")
    assert {name: files.read(f"state/{name}") for name in files.walk("state")} == {
        "0/a": b"new/0/a",
        "1/a": b"new/1/a",
        "b": b"new/b",
    }
    assert not files.exists("new")


def test_a_put_whose_answer_was_lost_has_created_the_object(
    spark: SparkSession, view: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventide.spark.hadoop_storage._OBJECT_STORES", frozenset({"viewfs"}))
    storage = HadoopStorage(view, spark, single_writer=True)
    body = uuid.uuid4().bytes
    assert storage.create("a/1", [body]) and storage.create("a/1", [body])


def test_files_that_a_killed_writer_has_not_renamed_are_deleted(spark: SparkSession, tmp_path: Path) -> None:
    storage = HadoopStorage(f"file://{tmp_path}", spark)
    storage.create("a/1", [b"one"])
    storage._write_hidden("a/2", [b"torn"])
    storage.delete_unfinished("a")
    assert sorted(path.name for path in (tmp_path / "a").iterdir() if not path.name.endswith(".crc")) == ["1"]
