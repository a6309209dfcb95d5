"""Directories of files that a sink replaces without Spark."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from eventide.sinks.spark_writers import replace_directory


def test_a_directory_and_its_new_name_are_on_disk_when_it_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[tuple[Path, bool]] = []
    target = tmp_path / "out" / "batch=0"

    def fsync(handle: int, fsync=os.fsync) -> None:  # type: ignore[no-untyped-def]
        flushed.append((Path(f"/proc/self/fd/{handle}").readlink(), target.exists()))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    replace_directory(pa.table({"n": [1]}), target, "snappy")
    (root, _), (file, _), (folder, is_named), *parents = flushed
    assert root == tmp_path, "the parent is new"
    assert file.parent == folder and not is_named
    assert parents == [(target.parent, True)]
    flushed.clear()
    replace_directory(pa.table({"n": [2]}), target, "snappy")
    assert [path for path, _ in flushed[2:]] == [target.parent]
