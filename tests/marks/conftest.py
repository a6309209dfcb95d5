"""Clients know the token of the servers, and nothing is stored in the home of whoever runs the tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from eventide.marks.stores.memory import MemoryStore
from eventide.marks.stores.remote import RemoteStore
from tests.marks.server_harness import TOKEN, serving


@pytest.fixture(autouse=True)
def own_place(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where tokens of the user are stored."""
    place = tmp_path_factory.mktemp("config")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place))
    monkeypatch.setenv("EVENTIDE_TOKEN", TOKEN)
    return place


@pytest.fixture
def url(behind: MemoryStore) -> Iterator[str]:
    """The address of a server before the store that a test names ``behind``."""
    with serving(behind) as url:
        yield url


@pytest.fixture
def store(url: str) -> Iterator[RemoteStore]:
    """The store behind that server, without patience."""
    remote = RemoteStore(url, token=TOKEN, patience=0)
    yield remote
    remote.close()
