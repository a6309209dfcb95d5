"""Every kind of storage that keeps commit records, for tests that hold for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from eventide.spark.object_storage import object_storage
from eventide.spark.storage import LocalStorage, Storage

Open = Callable[[], Storage]
"""Opens the same directory again, as another driver would."""


def local(place: Path) -> Open:
    return lambda: LocalStorage(place)


def obstore_memory(place: Path) -> Open:
    store = pytest.importorskip("obstore.store").MemoryStore()
    return lambda: object_storage(store, "query")


def obstore_local(place: Path) -> Open:
    stores = pytest.importorskip("obstore.store")
    return lambda: object_storage(stores.LocalStore(place, mkdir=True), "query")


def fsspec_memory(place: Path) -> Open:
    files: Any = pytest.importorskip("fsspec.implementations.memory").MemoryFileSystem()
    return lambda: object_storage(files, str(place))


def fsspec_local(place: Path) -> Open:
    files: Any = pytest.importorskip("fsspec").filesystem("file")
    return lambda: object_storage(files, str(place))


STORES: Mapping[str, Callable[[Path], Open]] = {
    item.__name__: item for item in (local, obstore_memory, obstore_local, fsspec_memory, fsspec_local)
}


@pytest.fixture(params=STORES)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Every store of this process."""
    if request.param.startswith("fsspec") and request.node.get_closest_marker("exclusive"):
        pytest.skip("the file systems that fsspec itself has look before they write")
    yield STORES[request.param](tmp_path / "checkpoint")
