"""Directories of files that a sink replaces without Spark."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventide import sinks
from eventide.errors import DataError
from eventide.sinks import OutputInfo
from eventide.sinks.batch import SinkBatch
from eventide.sinks.batch_directory import BatchMarker, replace_directory

INFO = OutputInfo("panes", key=(), mode="accumulating")


class Killed(BaseException):
    """The process ends here: nothing is cleaned up."""


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "out" / "batch=0"


def numbers(directory: Path) -> list[int]:
    """The rows that a reader of the directory sees."""
    files = sorted(file for file in directory.iterdir() if not file.name.startswith((".", "_")))
    return [number for file in files for number in pq.ParquetFile(file).read()["n"].to_pylist()]


def names(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


def table(*values: int) -> pa.Table:
    return pa.table({"n": [*values]})


def test_a_directory_and_its_new_name_are_on_disk_when_it_is_replaced(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[tuple[Path, bool]] = []

    def fsync(handle: int, fsync=os.fsync) -> None:  # type: ignore[no-untyped-def]
        flushed.append((Path(f"/proc/self/fd/{handle}").readlink(), target.exists()))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    replace_directory(table(1), target, "snappy")
    (root, _), (file, _), (folder, is_named), *parents = flushed
    assert root == tmp_path, "the parent is new"
    assert file.parent == folder and not is_named
    assert parents == [(target.parent, True)]
    flushed.clear()
    replace_directory(table(2), target, "snappy")
    assert [path for path, _ in flushed[2:]] == [target]


class Fuse:
    """Ends the process at one of the calls that change or flush files: ``left`` of them still happen."""

    CALLS = ((os, "rename"), (os, "replace"), (os, "unlink"), (os, "rmdir"), (os, "fsync"), (shutil, "rmtree"))

    def __init__(self, left: int, patch: pytest.MonkeyPatch) -> None:
        self.left = left
        for place, name in self.CALLS:
            patch.setattr(place, name, self.guarded(getattr(place, name)))

    @property
    def burnt(self) -> bool:
        return self.left < 0

    def guarded(self, call: Any) -> Any:
        def guard(*arguments: Any, **options: Any) -> Any:
            self.left -= 1
            if self.burnt:
                raise Killed
            return call(*arguments, **options)

        return guard


@pytest.mark.parametrize("again", [[1], [2]], ids=["the same content", "other content"])
def test_a_writer_that_is_killed_at_any_step_leaves_a_complete_batch(
    target: Path, again: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in range(20):
        shutil.rmtree(target.parent, ignore_errors=True)
        replace_directory(table(1), target, "snappy")
        with monkeypatch.context() as patch:
            fuse = Fuse(step, patch)
            with contextlib.suppress(Killed):
                replace_directory(table(*again), target, "snappy")
        assert numbers(target) in ([1], again)
        if not fuse.burnt:
            break
    assert numbers(target) == again
    assert step > 2, "each step was tried"


def test_a_batch_with_the_same_content_stays_as_it_is(target: Path) -> None:
    replace_directory(table(1), target, "snappy")
    before = (target / "part-00000.parquet").stat().st_ino
    replace_directory(table(1), target, "snappy")
    assert (target / "part-00000.parquet").stat().st_ino == before
    assert names(target.parent) == ["batch=0"]


def test_files_of_another_writer_are_replaced_by_those_of_the_batch(target: Path) -> None:
    target.mkdir(parents=True)
    pq.write_table(table(8), target / "part-00007-spark.parquet")
    (target / "_SUCCESS").touch()
    replace_directory(table(1), target, "snappy")
    assert numbers(target) == [1]
    assert names(target.parent) == ["batch=0"]


def test_an_older_writer_replaces_nothing_with_other_content(target: Path) -> None:
    def replaced() -> None:
        raise DataError("Another driver runs the query")

    replace_directory(table(1), target, "snappy")
    replace_directory(table(1), target, "snappy", check_writer=replaced)
    with pytest.raises(DataError, match="Another driver"):
        replace_directory(table(2), target, "snappy", check_writer=replaced)
    assert numbers(target) == [1]
    assert names(target.parent) == ["batch=0"]


def test_a_session_without_java_marks_no_directory(tmp_path: Path) -> None:
    session: Any = object()
    marker = BatchMarker(f"{tmp_path}/batch=0", table(1), session)
    marker.write()
    assert not marker.is_present() and names(tmp_path) == []


def test_the_first_batch_of_a_process_removes_what_killed_writers_left(tmp_path: Path) -> None:
    leftovers = [f".batch=3.{'0a' * 16}", f".batch=12.{'ff' * 16}"]
    others = [".batch=3", "batch=3", ".crc", f".batch=x.{'0a' * 16}"]
    for name in [*leftovers, *others]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "part-00000.parquet").touch()
    sink = sinks.files(tmp_path)
    spark: Any = None
    sink.write(SinkBatch(table(), spark), 3, INFO)
    assert set(leftovers) <= set(names(tmp_path)), "without rows nothing is written or removed"
    sink.write(SinkBatch(table(1), spark), 4, INFO)
    assert names(tmp_path) == sorted([*others, "batch=4"])
