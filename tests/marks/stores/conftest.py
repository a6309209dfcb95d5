"""Every store, on a clock that stands still until it is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from eventide.marks.stores.store import Store
from tests.marks.stores.parts import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, clock: Clock, tmp_path: Path) -> Iterator[Store]:
    """Each of the stores, empty."""
    if request.param == "memory":
        memory = pytest.importorskip("eventide.marks.stores.memory")
        yield memory.MemoryStore(clock=clock)
        return
    if request.param == "sqlite":
        from eventide.marks.stores.sqlite import sqlite_store

        found: Store = sqlite_store(f"sqlite:///{tmp_path}/marks.db", clock=clock)
    else:
        from eventide.marks.stores.postgres import postgres_store

        found = postgres_store(request.getfixturevalue("postgres_url"), clock=clock)
    yield found
    found.close()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for a store that many can open; its clock is the real one."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/marks.db"
    found: str = request.getfixturevalue("postgres_url")
    return found
