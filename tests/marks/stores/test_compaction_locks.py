"""Compaction is one step with its append; what waits for it, and what does not."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from eventide.errors import DataError
from eventide.marks import compaction
from eventide.marks.stores import connect
from eventide.marks.stores.sql_dialects import postgres_store
from eventide.marks.stores.store import Store
from tests.marks.stores.cases import config, numbers_in, part


@pytest.fixture
def store(postgres_url: str) -> Iterator[Store]:
    """A stream with a few rows in a store that does not wait for locks, while another one holds its segment."""
    store = postgres_store(f"{postgres_url}%20-clock_timeout%3D20")
    store.create_stream("orders", config())
    handle = store.open_writer("orders", "till")
    for number in range(1, 8):
        store.append(handle, number, [part(0, number)])
    with psycopg.connect(postgres_url) as other:
        other.execute("SELECT * FROM eventide_segments FOR UPDATE")
        yield store
    store.close()


@pytest.mark.usefixtures("often")
def test_an_append_that_fails_while_it_compacts_leaves_everything_as_it_was(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = connect(url)
    store.create_stream("orders", config())
    handle = store.open_writer("orders", "till")
    for number in range(1, 4):
        store.append(handle, number, [part(0, number)])
    with monkeypatch.context() as broken:
        broken.setattr(compaction, "compact_bodies", broke)
        with pytest.raises(MemoryError):
            store.append(handle, 4, [part(0, 4)], note=5)
    assert [blob.rows for blob in store.read("orders", 0, 0, rows=9)] == [1, 1, 1]
    assert store.lengths("orders") == {0: 3} and store.notes("orders") == []
    assert store.append(handle, 4, [part(0, 4)], note=5) == {0: 4}
    assert [blob.rows for blob in store.read("orders", 0, 0, rows=9)] == [4]
    store.close()


def broke(*_: object) -> bytes:
    raise MemoryError


def test_compaction_waits_for_whoever_locks_the_segment(store: Store) -> None:
    with pytest.raises(DataError, match="lock timeout"):
        store.compact("orders", 0, 0)


def test_truncating_waits_for_whoever_compacts(store: Store) -> None:
    with pytest.raises(DataError, match="lock timeout"):
        store.truncate("orders", {0: 4})


def test_readers_do_not_wait_for_whoever_compacts(store: Store) -> None:
    assert numbers_in(store, "orders", 0, 3) == [4, 5, 6, 7]
