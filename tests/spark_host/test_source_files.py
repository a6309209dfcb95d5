"""Source files that were deleted before an interrupted batch is repeated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import eventide as ev
from eventide.spark.source_log import check_source_files, interrupted_files
from eventide.spark.storage import LocalStorage


def offsets(*sources: int | None) -> str:
    lines = ["-" if offset is None else json.dumps({"logOffset": offset}) for offset in sources]
    return "\n".join(["v1", "{}", *lines])


def log(*entries: tuple[Path, int]) -> str:
    lines = [json.dumps({"path": path.as_uri(), "timestamp": 1, "batchId": batch}) for path, batch in entries]
    return "\n".join(["v1", *lines])


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Batch 3 was planned with two files and not committed. The names of files have to be escaped in Spark's log."""
    place, source = tmp_path / "checkpoint", tmp_path / "in put"
    source.mkdir()
    files = LocalStorage(place)
    for batch in range(4):
        files.replace(f"offsets/{batch}", offsets(None, batch).encode())
        (source / f"{batch}.parquet").touch()
    for batch in range(3):
        files.replace(f"commits/{batch}", b"v1\n{}")
    files.replace("sources/1/2.compact", log(*((source / f"{batch}.parquet", batch) for batch in range(3))).encode())
    (source / "3 too.parquet").touch()
    files.replace("sources/1/3", log((source / "3.parquet", 3), (source / "3 too.parquet", 3)).encode())
    return place


def test_the_files_of_the_interrupted_batch_are_identified(checkpoint: Path) -> None:
    (paths,) = interrupted_files(LocalStorage(checkpoint)).values()
    assert [Path(path).name for path in paths] == ["3.parquet", "3 too.parquet"]


def test_files_of_a_merged_log_are_distinguished_by_their_offset(checkpoint: Path) -> None:
    (checkpoint / "commits" / "2").unlink()
    observed = interrupted_files(LocalStorage(checkpoint))
    assert [Path(path).name for path in observed[2]] == ["2.parquet"]


def test_nothing_is_missing_while_all_files_exist(checkpoint: Path) -> None:
    assert check_source_files(LocalStorage(checkpoint), "fail") == {}


def test_a_deleted_file_is_named_and_stops_the_start(checkpoint: Path) -> None:
    (checkpoint.parent / "in put" / "3 too.parquet").unlink()
    with pytest.raises(ev.DataError, match=r"Batch 3 was interrupted .*in put/3 too\.parquet\. Restore"):
        check_source_files(LocalStorage(checkpoint), "fail")


def test_a_deleted_file_can_be_skipped_with_a_warning(checkpoint: Path) -> None:
    (checkpoint.parent / "in put" / "3 too.parquet").unlink()
    with pytest.warns(UserWarning, match=r"repeated without .*3 too\.parquet"):
        assert check_source_files(LocalStorage(checkpoint), "skip") == {3: 1}


def test_a_file_of_a_committed_batch_may_be_deleted(checkpoint: Path) -> None:
    (checkpoint.parent / "in put" / "1.parquet").unlink()
    assert check_source_files(LocalStorage(checkpoint), "fail") == {}


def test_another_word_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ev.PlanError, match="on_missing_file is one of 'fail', 'skip', not 'ignore'"):
        check_source_files(LocalStorage(tmp_path), "ignore")  # type: ignore[arg-type]
