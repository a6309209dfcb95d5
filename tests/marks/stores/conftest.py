"""Every store, on a clock that only tests advance."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from eventide.marks import compaction
from eventide.marks.stores.memory import MemoryStore
from eventide.marks.stores.sql_dialects import postgres_store, sqlite_store
from eventide.marks.stores.store import Store
from tests.marks.server_harness import remote
from tests.marks.stores.cases import OFTEN, Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "remote", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, clock: Clock, tmp_path: Path) -> Iterator[Store]:
    """Each of the stores, empty; ``remote`` is one behind a real server."""
    if request.param == "remote":
        with remote(clock) as far:
            yield far
        return
    opened: Store
    if request.param == "memory":
        opened = MemoryStore(clock=clock)
    elif request.param == "sqlite":
        opened = sqlite_store(f"sqlite:///{tmp_path}/marks.db", clock=clock)
    else:
        opened = postgres_store(request.getfixturevalue("postgres_url"), clock=clock)
    yield opened
    opened.close()


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blobs are compacted every few rows."""
    monkeypatch.setattr(compaction, "POLICY", OFTEN)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for a store that many can open; its clock is the real one."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/marks.db"
    url: str = request.getfixturevalue("postgres_url")
    return url
