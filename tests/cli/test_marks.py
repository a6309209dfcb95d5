"""Streams of marks from the command line, over a store in memory."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from eventide.marks.mark import Mark
from eventide.marks.stores.memory import MemoryStore
from eventide.marks.stores.store import Config, Part
from tests.cli.typed import lines, typed

ORDERS = "postgresql://db/shop#orders"
SECOND = 1_000_000


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """A store with a stream of two segments, a writer with notes, and two marks."""
    memory = MemoryStore(clock=lambda: 1000 * SECOND)
    monkeypatch.setattr("eventide.marks.streams.connect", lambda url, token=None: memory)
    memory.create_stream("orders", Config(schema=pa.schema({"shop": pa.string()}), segments=2))
    handle = memory.open_writer("orders", "till")
    memory.append(handle, 1, [Part(0, 3, b""), Part(1, 2, b"")], note=990 * SECOND)
    lease = memory.acquire("orders", "me", 2000 * SECOND)
    assert lease is not None
    memory.put_mark(lease, Mark(1, 900 * SECOND, 950 * SECOND, {0: 1, 1: 0}, 995 * SECOND))
    memory.put_mark(lease, Mark(2, 980 * SECOND, 990 * SECOND, {0: 3, 1: 1}, 999 * SECOND))
    return memory


def test_streams_are_listed(store: MemoryStore) -> None:
    expected = {
        "stream": "orders",
        "segments": 2,
        "events": 5,
        "writers": 1,
        "marks": 2,
        "time": "1970-01-01T00:16:20Z",
    }
    assert lines(typed("marks", "streams", "postgresql://db/shop", "--json")) == [expected]


def test_people_get_a_table(store: MemoryStore) -> None:
    shown = typed("marks", "streams", "postgresql://db/shop").stdout
    assert "stream" in shown and "orders" in shown and "{" not in shown


def test_writers_are_listed_with_their_notes(store: MemoryStore) -> None:
    (row,) = lines(typed("marks", "writers", ORDERS, "--json"))
    assert (row["writer"], row["time"], row["position"]) == ("till", "1970-01-01T00:16:30Z", "0:3, 1:2")


def test_the_newest_marks_are_listed(store: MemoryStore) -> None:
    assert [row["mark"] for row in lines(typed("marks", "marks", ORDERS, "--json"))] == [1, 2]
    (result,) = lines(typed("marks", "marks", ORDERS, "--last", "1", "--json"))
    assert (result["mark"], result["lower"], result["cut"]) == (2, "1970-01-01T00:16:20Z", "0:3, 1:1")


def test_a_stream_is_made_with_its_columns(store: MemoryStore) -> None:
    done = typed(
        "marks", "create", "postgresql://db/shop#clicks", "-c", "ts:timestamp", "-c", "n:bigint", "--segments", "3"
    )
    assert done.exit_code == 0
    info = store.stream("clicks")
    assert info.config.schema == pa.schema({"ts": pa.timestamp("us", "UTC"), "n": pa.int64()})
    assert len(info.segments.open) == 3


def test_a_column_of_an_unknown_type_is_rejected(store: MemoryStore) -> None:
    result = typed("marks", "create", "postgresql://db/shop#clicks", "-c", "ts:tmestamp")
    assert result.exit_code == 2 and "write NAME:TYPE" in result.stderr
    assert store.streams() == ["orders"]


def test_a_segment_is_split(store: MemoryStore) -> None:
    rows = lines(typed("marks", "scale", ORDERS, "--split", "0", "--json"))
    assert [(entry["segment"], entry["keys"], entry["status"]) for entry in rows] == [
        (0, "[0, 0.5)", "sealed"),
        (1, "[0.5, 1)", "open"),
        (2, "[0, 0.25)", "open"),
        (3, "[0.25, 0.5)", "open"),
    ]


def test_segments_are_merged(store: MemoryStore) -> None:
    typed("marks", "scale", ORDERS, "--merge", "0", "--merge", "1")
    assert [(segment.number, segment.low, segment.high) for segment in store.stream("orders").segments.open] == [
        (2, 0.0, 1.0)
    ]


@pytest.mark.parametrize("words", [[], ["--split", "0", "--merge", "1"]])
def test_scaling_must_be_clear(store: MemoryStore, words: list[str]) -> None:
    result = typed("marks", "scale", ORDERS, *words)
    assert result.exit_code == 2 and "Name either --split" in result.stderr


@pytest.mark.parametrize("words", [["--merge", "1"], ["--merge", "1", "--merge", "1"]])
def test_one_segment_is_not_merged(store: MemoryStore, words: list[str]) -> None:
    result = typed("marks", "scale", ORDERS, *words)
    assert result.exit_code == 2 and "at least two neighbouring segments" in result.stderr
    assert [segment.number for segment in store.stream("orders").segments.open] == [0, 1]


def test_what_cannot_be_undone_is_asked_first(store: MemoryStore) -> None:
    assert typed("marks", "seal", ORDERS, answer="n\n").exit_code == 1
    assert not any(segment.sealed for segment in store.stream("orders").segments.all)
    assert typed("marks", "seal", ORDERS, answer="y\n").exit_code == 0
    assert all(segment.sealed for segment in store.stream("orders").segments.all)


def test_events_before_a_time_are_dropped_at_a_mark(store: MemoryStore) -> None:
    done = typed("marks", "truncate", ORDERS, "--before", "1970-01-01T00:16:00Z", "--yes")
    assert "mark 1" in done.stderr
    assert store.stream("orders").starts.get(0, 0) < 3


def test_events_before_a_mark_are_dropped(store: MemoryStore) -> None:
    assert typed("marks", "truncate", ORDERS, "--mark", "2", "--yes").exit_code == 0
    assert store.stream("orders").starts[0] == 3


def test_a_time_before_all_marks_is_rejected(store: MemoryStore) -> None:
    result = typed("marks", "truncate", ORDERS, "--before", "1970-01-01T00:00:01Z", "--yes")
    assert result.exit_code == 2 and "has no mark at 1970" in result.stderr


def test_a_stream_is_deleted(store: MemoryStore) -> None:
    assert typed("marks", "delete", ORDERS, "-y").exit_code == 0
    assert store.streams() == []


def test_an_unknown_stream_is_named(store: MemoryStore) -> None:
    result = typed("marks", "marks", "postgresql://db/shop#order")
    assert result.exit_code == 2 and "Did you mean 'orders'?" in result.stderr


def test_an_address_without_a_name_is_rejected(store: MemoryStore) -> None:
    assert typed("marks", "writers", "postgresql://db/shop").exit_code == 2


def test_the_controller_is_started_with_its_own_options(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started: list[str] = []
    monkeypatch.setattr("eventide.marks.controller.__main__._serve", lambda options: started.append(options.store))
    store = f"sqlite:///{tmp_path}/shop.db"
    assert typed("marks", "controller", "--store", store).exit_code == 0
    assert started == [store]


def test_the_controller_is_called_as_it_was_typed() -> None:
    result = typed("marks", "controller", "--help")
    assert result.exit_code == 0 and result.stdout.startswith("usage: eventide marks controller")


def test_a_store_that_is_misspelt_is_not_made(tmp_path: Path) -> None:
    result = typed("marks", "streams", f"sqlite:///{tmp_path}/shp.db")
    assert result.exit_code == 2 and "There is no store" in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [["streams", "{store}"], ["writers", "{store}#orders"]])
def test_a_look_into_another_database_changes_nothing(tmp_path: Path, words: list[str]) -> None:
    place = tmp_path / "panes.db"
    with closing(sqlite3.connect(place)) as database:
        database.execute("CREATE TABLE revenue (n INTEGER)")
    before = place.read_bytes()
    result = typed("marks", *(word.replace("{store}", f"sqlite:///{place}") for word in words))
    assert result.exit_code == 2 and "is a database without streams" in result.stderr
    assert place.read_bytes() == before


def test_a_store_is_named_without_a_stream(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/shop.db"
    typed("marks", "create", f"{store}#orders", "-c", "ts:timestamp")
    result = typed("marks", "streams", f"{store}#orders")
    assert result.exit_code == 2 and "without #orders" in result.stderr


def test_a_directory_that_is_missing_is_named(tmp_path: Path) -> None:
    result = typed("marks", "create", f"sqlite:///{tmp_path}/nowhere/shop.db#orders", "-c", "ts:timestamp")
    assert result.exit_code == 2 and f"There is no directory '{tmp_path}/nowhere'" in result.stderr


def test_streams_of_a_file_are_made_and_found(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/shop.db"
    assert typed("marks", "create", f"{store}#orders", "-c", "ts:timestamp").exit_code == 0
    assert [row["stream"] for row in lines(typed("marks", "streams", store, "--json"))] == ["orders"]
