"""A session's local files, which start no program."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Any

import pytest

from eventide.spark import hadoop

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def local(spark: SparkSession) -> Any:
    java: Any = spark.sparkContext._jvm
    return java.org.apache.hadoop.fs.FileSystem.getLocal(spark.sparkContext._jsc.hadoopConfiguration())


def test_the_session_has_files_of_ours_and_a_second_call_changes_nothing(spark: SparkSession) -> None:
    assert local(spark).getClass().getName() == "eventide.LocalFiles"
    hadoop.use_cheap_files(spark)
    assert local(spark).getClass().getName() == "eventide.LocalFiles"


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o421, 0o777, 0o1777])
def test_permissions_are_those_that_were_asked_for(spark: SparkSession, tmp_path: Path, mode: int) -> None:
    files = spark.sparkContext._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]
    local(spark).setPermission(files.Path(str(tmp_path)), files.permission.FsPermission(f"{mode:o}"))
    assert stat.S_IMODE(tmp_path.stat().st_mode) == mode


def test_files_that_the_user_named_stay(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    monkeypatch.setattr(hadoop, "_replace", lambda *_: pytest.fail("replaced"))
    settings.set("fs.file.impl", "org.apache.hadoop.fs.LocalFileSystem")
    try:
        hadoop.use_cheap_files(spark)
    finally:
        settings.unset("fs.file.impl")


def test_where_permissions_are_others_files_stay(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hadoop, "_POSIX", False)
    monkeypatch.setattr(hadoop, "_replace", lambda *_: pytest.fail("replaced"))
    hadoop.use_cheap_files(spark)


def test_where_it_cannot_be_compiled_all_stays_as_it_was(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "hadoop.py"
    broken.with_name("LocalFiles.java").write_text("class")
    monkeypatch.setattr(hadoop, "__file__", str(broken))
    before = local(spark).hashCode()
    hadoop.use_cheap_files(spark)
    assert local(spark).hashCode() == before
