"""Every store, on a clock that stands still until it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from eventide.marks.stores.store import Store
from tests.marks.stores.parts import Clock

Opened: TypeAlias = Callable[[], Store]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["sqlite", "postgres"])
def opened(request: pytest.FixtureRequest, clock: Clock, tmp_path: Path) -> Iterator[Opened]:
    """Opens a store that others can open, too; always the same."""
    made: list[Store] = []
    if request.param == "sqlite":
        from eventide.marks.stores.sqlite import sqlite_store

        def open_() -> Store:
            made.append(sqlite_store(f"sqlite:///{tmp_path}/marks.db", clock=clock))
            return made[-1]
    else:
        url = request.getfixturevalue("postgres_url")
        from eventide.marks.stores.postgres import postgres_store

        def open_() -> Store:
            made.append(postgres_store(url, clock=clock))
            return made[-1]

    yield open_
    for one in made:
        one.close()


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
