"""The contract of storages that need no Spark, and what is special about each of them."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import eventide as ev
from eventide.spark.checkpoint_storage import check_exclusive, record_storage, storage_of
from eventide.spark.object_storage import FsspecStorage, ObstoreStorage, object_storage
from eventide.spark.storage import LocalStorage
from tests.driver.storage_contract import *  # noqa: F403
from tests.driver.stores import opened

__all__ = ["opened"]


class OverwritingStorage(LocalStorage):
    """A store without put-if-absent."""

    def create(self, name: str, pieces: Sequence[bytes]) -> bool:
        self.replace(name, b"".join(pieces))
        return True


def test_a_store_that_overwrites_is_rejected_and_the_probe_is_removed(tmp_path: Path) -> None:
    with pytest.raises(ev.PlanError, match=r"overwrites files that exist.*single_writer=True"):
        check_exclusive(OverwritingStorage(tmp_path))
    assert list((tmp_path / "eventide").iterdir()) == []


class PlainFiles:
    """A file system of fsspec that ignores the mode, as many do."""

    def __init__(self, files: Any) -> None:
        self._files = files

    def pipe_file(self, path: str, value: bytes, **options: Any) -> None:
        self._files.pipe_file(path, value)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)


def test_a_file_system_that_ignores_the_mode_is_rejected_or_needs_a_single_writer(tmp_path: Path) -> None:
    files = PlainFiles(pytest.importorskip("fsspec").filesystem("file"))
    with pytest.raises(ev.PlanError, match="overwrites files that exist"):
        check_exclusive(object_storage(files, str(tmp_path)))
    storage = object_storage(files, str(tmp_path), single_writer=True)
    assert storage.create("a/1", [b"one"]) and not storage.create("a/1", [b"two"])
    assert storage.read("a/1") == b"one"


class StrictFiles(PlainFiles):
    """A file system of fsspec that does not know the mode."""

    def pipe_file(self, path: str, value: bytes, **options: Any) -> None:
        if options:
            raise NotImplementedError("mode")
        self._files.pipe_file(path, value)


def test_a_file_system_that_does_not_know_the_mode_is_rejected_or_needs_a_single_writer(tmp_path: Path) -> None:
    files = StrictFiles(pytest.importorskip("fsspec").filesystem("file"))
    with pytest.raises(ev.PlanError, match="overwrites files that exist"):
        check_exclusive(object_storage(files, str(tmp_path)))
    storage = object_storage(files, str(tmp_path), single_writer=True)
    assert storage.create("a/1", [b"one"]) and not storage.create("a/1", [b"two"])


class OldStore:
    """A store of obstore whose service has no conditional put."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def put(self, path: str, body: bytes, *, mode: str | None = None, **options: Any) -> None:
        if mode == "create":
            raise NotImplementedError("conditional put")
        self._store.put(path, body, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_a_store_without_conditional_puts_is_rejected_or_needs_a_single_writer() -> None:
    store = OldStore(pytest.importorskip("obstore.store").MemoryStore())
    with pytest.raises(ev.PlanError, match="overwrites files that exist"):
        check_exclusive(object_storage(store, "query"))
    storage = object_storage(store, "query", single_writer=True)
    assert storage.create("a/1", [b"one"]) and not storage.create("a/1", [b"two"])


def test_a_put_whose_answer_was_lost_has_created_the_object() -> None:
    store = pytest.importorskip("obstore.store").MemoryStore()
    ObstoreStorage(store).replace("a/1", b"mine")  # the first request, whose answer was lost
    assert ObstoreStorage(store).create("a/1", [b"mi", b"ne"])
    assert not ObstoreStorage(store).create("a/1", [b"other"])


def _no_links(source: object, target: object) -> None:
    raise OSError(errno.EPERM, "Operation not permitted")


def test_a_disk_without_hard_links_is_rejected_or_needs_a_single_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", _no_links)
    with pytest.raises(ev.PlanError, match=r"run\(single_writer=True\)"):
        check_exclusive(LocalStorage(tmp_path))
    storage = LocalStorage(tmp_path, single_writer=True)
    assert storage.create("a/1", [b"one"]) and not storage.create("a/1", [b"two"])
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["1"]


@pytest.mark.parametrize("action", ["create", "replace"])
def test_a_full_disk_leaves_nothing_and_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    storage = LocalStorage(tmp_path)
    storage.replace("a/plan.json", b"old")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device"):
        storage.replace("a/plan.json", b"new") if action == "replace" else storage.create("a/1", [b"new"])
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["plan.json"]
    assert storage.read("a/plan.json") == b"old"


def test_what_is_not_a_store_is_named() -> None:
    with pytest.raises(ev.PlanError, match=r"run\(storage=\) takes a store of obstore .* not str"):
        object_storage("s3://shop", "query")


def test_records_of_several_queries_share_a_store_and_are_read_back(tmp_path: Path) -> None:
    store = pytest.importorskip("obstore.store").MemoryStore()
    first, second = (record_storage(LocalStorage(tmp_path / name), store) for name in "ab")
    assert first.create("eventide/commits/0", [b"first"]) and second.create("eventide/commits/0", [b"second"])
    assert record_storage(LocalStorage(tmp_path / "a"), store).read("eventide/commits/0") == b"first"


def test_a_checkpoint_whose_own_store_overwrites_can_have_its_records_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", _no_links)
    store = pytest.importorskip("obstore.store").MemoryStore()
    assert record_storage(LocalStorage(tmp_path), store).create("eventide/commits/0", [b"first"])
    assert record_storage(LocalStorage(tmp_path), store).read("eventide/commits/0") == b"first"


def test_a_query_that_is_started_without_its_store_is_rejected(tmp_path: Path) -> None:
    record_storage(LocalStorage(tmp_path), pytest.importorskip("obstore.store").MemoryStore())
    with pytest.raises(ev.PlanError, match=r"are in another store, MemoryStore\. Name it with storage="):
        record_storage(LocalStorage(tmp_path))


def test_a_store_cannot_be_named_once_there_are_records_in_the_checkpoint(tmp_path: Path) -> None:
    LocalStorage(tmp_path).create("eventide/commits/0", [b"record"])
    with pytest.raises(ev.PlanError, match="are in the checkpoint itself, and storage= names MemoryStore"):
        record_storage(LocalStorage(tmp_path), pytest.importorskip("obstore.store").MemoryStore())


def test_the_place_of_a_store_shows_no_credentials(tmp_path: Path) -> None:
    store = pytest.importorskip("obstore.store").S3Store(
        "shop", prefix="queries", region="eu-north-1", access_key_id="AKIA", secret_access_key="hidden"
    )
    assert ObstoreStorage(store, "id").location == "S3Store:shop:queries/id"
    files = pytest.importorskip("fsspec").filesystem("dir", path=str(tmp_path), target_protocol="file")
    assert FsspecStorage(files, "id").location == f"DirFileSystem:{str(tmp_path).strip('/')}/id"


def test_an_address_without_a_session_is_local_or_an_error(tmp_path: Path) -> None:
    assert storage_of(f"file:{tmp_path}").location == storage_of(tmp_path).location == str(tmp_path)
    with pytest.raises(ev.PlanError, match=r"The checkpoint 's3a://shop/query' needs a SparkSession"):
        storage_of("s3a://shop/query")
