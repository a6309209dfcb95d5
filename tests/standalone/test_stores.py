"""The contract of stores: one suite, which the store in memory and the one in SQLite pass alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from eventide.errors import DataError
from eventide.kernels.keys import encoded, encoded_key
from eventide.standalone.stores import MemoryStore, Range, SqliteStore, Store
from eventide.state.message_layout import MessageLayout, Order

Open: TypeAlias = Callable[[MessageLayout], Store]

LAYOUTS = [MessageLayout(order, session) for order in Order for session in (False, True)]
LAZY = [layout for layout in LAYOUTS if layout.equal_first]


@pytest.fixture(params=["memory", "sqlite"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    opened: list[Store] = []

    def make(layout: MessageLayout) -> Store:
        in_memory = request.param == "memory"
        opened.append(MemoryStore(layout) if in_memory else SqliteStore(tmp_path / f"{len(opened)}.db", layout))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


def messages(*rows: tuple[int, int, str, str], origin: str = "") -> pl.DataFrame:
    """Messages of (offset, position, session, join key)."""
    names = {"__offset": pl.Int64, "__at": pl.Int64, "__session": pl.String, "__equal": pl.String}
    frame = pl.DataFrame(rows, schema=names, orient="row")
    return frame.with_columns(pl.lit(origin).alias("__origin"), (pl.col("__offset") * 10).alias("value"))


FOUR = messages((1, 100, "s", "a"), (2, 50, "s", "b"), (3, 150, "t", "a"), (4, 100, "t", "b"))


def offsets(frame: pl.DataFrame | None) -> list[int]:
    assert frame is not None
    return frame["__offset"].to_list()


@pytest.mark.parametrize("layout", LAYOUTS, ids=MessageLayout.describe)
class TestMessages:
    def test_a_range_is_read_by_position_and_offset(self, open_store: Open, layout: MessageLayout) -> None:
        store = open_store(layout).messages
        assert store.put(FOUR) == 4
        assert offsets(store.read()) == [2, 1, 4, 3]
        assert offsets(store.read(Range(50, 101))) == [2, 1, 4]
        assert offsets(store.read(Range(51, 100))) == []

    def test_offsets_sharpen_both_ends(self, open_store: Open, layout: MessageLayout) -> None:
        store = open_store(layout).messages
        store.put(FOUR)
        assert offsets(store.read(Range(100, 150, start_offset=2))) == [4]
        assert offsets(store.read(Range(50, 100, end_offset=1))) == [2, 1]
        assert offsets(store.read(Range(100, 100, start_offset=4, end_offset=4))) == [4]

    def test_a_join_key_is_looked_up_with_and_without_a_range(self, open_store: Open, layout: MessageLayout) -> None:
        store = open_store(layout).messages
        store.put(FOUR)
        assert offsets(store.read(equal="a")) == [1, 3]
        assert offsets(store.read(Range(120, 200), equal="a")) == [3]
        assert offsets(store.read(equal="nobody")) == []

    def test_a_session_is_looked_up_and_a_join_key_in_it(self, open_store: Open, layout: MessageLayout) -> None:
        store = open_store(layout).messages
        store.put(FOUR)
        assert offsets(store.read(session="t")) == [4, 3]
        assert offsets(store.read(Range(100, 101), session="t")) == [4]
        assert offsets(store.read(session="t", equal="a")) == [3]

    def test_a_message_is_stored_exactly_once(self, open_store: Open, layout: MessageLayout) -> None:
        store = open_store(layout).messages
        store.put(FOUR)
        more = messages((5, 70, "s", "a"))
        assert store.put(pl.concat([FOUR, more, more])) == 1
        assert store.put(FOUR) == 0
        assert store.count() == 5

    def test_offsets_may_arrive_in_any_order(self, open_store: Open, layout: MessageLayout) -> None:
        store = open_store(layout).messages
        assert store.put(FOUR[[3, 1]]) == 2
        assert store.put(FOUR) == 2
        assert offsets(store.read()) == [2, 1, 4, 3]

    def test_origins_count_their_own_offsets(self, open_store: Open, layout: MessageLayout) -> None:
        store = open_store(layout).messages
        store.put(FOUR)
        assert store.put(FOUR.with_columns(pl.lit("other").alias("__origin"))) == 4
        assert offsets(store.named(pl.Series([1, 9]), origin="other")) == [1]

    def test_messages_are_looked_up_by_name(self, open_store: Open, layout: MessageLayout) -> None:
        store = open_store(layout).messages
        store.put(FOUR)
        assert offsets(store.named(pl.Series([4, 2, 7]))) == [2, 4]

    def test_what_has_expired_is_never_read_again(self, open_store: Open, layout: MessageLayout) -> None:
        store = open_store(layout).messages
        store.put(FOUR)
        gone = store.expire(100)
        assert gone == (0 if layout.equal_first else 1)
        assert offsets(store.read()) == [1, 4, 3]
        assert store.put(messages((9, 60, "s", "a"))) == 0
        assert offsets(store.read(equal="b")) == [4]

    def test_sessions_retire_one_by_one(self, open_store: Open, layout: MessageLayout) -> None:
        store = open_store(layout).messages
        store.put(FOUR)
        ended = pl.DataFrame({"__session": ["s", "t"], "__start": [0, 0], "__end": [100, 120]})
        assert store.retire(ended) == 2
        assert offsets(store.read()) == [1, 3]
        assert store.count() == 2

    def test_many_sessions_retire_at_once(self, open_store: Open, layout: MessageLayout) -> None:
        store = open_store(layout).messages
        store.put(messages(*((i, i, f"s{i % 20}", "a") for i in range(100))))
        # Of the first ten sessions what lies before 50, in two ranges that overlap.
        ended = [(f"s{i}", start, end) for i in range(10) for start, end in ((0, 30), (20, 50))]
        gone = pl.DataFrame(ended, schema=["__session", "__start", "__end"], orient="row")
        assert store.retire(gone) == 30
        assert sorted(offsets(store.read())) == [i for i in range(100) if i >= 50 or i % 20 >= 10]

    def test_an_empty_store_has_nothing_to_say(self, open_store: Open, layout: MessageLayout) -> None:
        store = open_store(layout).messages
        assert store.read() is None
        assert store.named(pl.Series([1])) is None
        assert (store.count(), store.bytes(), store.expire(5)) == (0, 0, 0)

    def test_room_is_given_back(self, open_store: Open, layout: MessageLayout) -> None:
        store = open_store(layout).messages
        many = messages(*((i, i, "s", "a") for i in range(5000)))
        store.put(many)
        full = store.bytes()
        store.expire(4900)
        assert offsets(store.read(equal="a")) == list(range(4900, 5000))
        assert store.count() == 100
        assert store.bytes() < full / 4


@pytest.mark.parametrize("layout", LAZY, ids=MessageLayout.describe)
def test_a_prefix_scan_deletes_what_has_expired_of_its_key(open_store: Open, layout: MessageLayout) -> None:
    store = open_store(layout).messages
    store.put(FOUR)
    store.expire(120)
    assert store.count() == 4
    assert offsets(store.read(equal="b")) == []
    assert store.count() == 2
    assert offsets(store.read(equal="a")) == [3]
    assert store.count() == 1


ANYTHING = {
    "int": pl.Series([1, None, -(2**63)], dtype=pl.Int64),
    "small": pl.Series([1, None, 255], dtype=pl.UInt8),
    "float": pl.Series([float("nan"), -0.0, None]),
    "text": ["ä", "", None],
    "bytes": [b"\x00\xff", b"", None],
    "yes": [True, False, None],
    "nothing": [None, None, None],
    "date": [date(2026, 3, 1), None, date(1, 1, 1)],
    "clock": [time(1, 2, 3, 4), None, time()],
    "zoned": pl.Series([datetime(2026, 3, 1), None, datetime(1969, 1, 1)]).dt.replace_time_zone("Europe/Berlin"),
    "nanos": pl.Series([1, None, -1], dtype=pl.Int64).cast(pl.Datetime("ns")),
    "length": pl.Series([timedelta(microseconds=1), None, timedelta(days=-1)], dtype=pl.Duration("us")),
    "money": pl.Series([Decimal("1.10"), None, Decimal("-99.99")], dtype=pl.Decimal(10, 2)),
    "kind": pl.Series(["a", None, "b"], dtype=pl.Categorical),
    "enum": pl.Series(["a", None, "b"], dtype=pl.Enum(["b", "a"])),
    "list": [[1, None], [], None],
    "pair": pl.Series([[1, 2], None, [3, 4]], dtype=pl.Array(pl.Int16, 2)),
    "struct": [{"x": 1, "y": [{"z": "q"}]}, None, {"x": None, "y": None}],
}


def test_values_of_every_type_come_back_as_they_were(open_store: Open) -> None:
    stored = messages((1, 1, "", ""), (2, 2, "", ""), (3, 3, "", "")).with_columns(**ANYTHING)
    store = open_store(MessageLayout(Order.TIME_OFFSET))
    store.messages.put(stored)
    store.commit(bytes)
    read = store.messages.read()
    assert read is not None
    assert_frame_equal(read, stored, categorical_as_str=True)
    assert read.schema == stored.schema


class TestWindows:
    def windows(self, *rows: tuple[str, int, int, int]) -> pl.DataFrame:
        names = {"__session": pl.String, "__start": pl.Int64, "__end": pl.Int64, "n": pl.Int64}
        frame = pl.DataFrame(rows, schema=names, orient="row")
        return frame.with_columns(__start_offset=pl.col("n"), __last_offset=pl.col("n"))

    def names(self, frame: pl.DataFrame | None) -> list[tuple[Any, ...]]:
        assert frame is not None
        return frame.select("__session", "__start", "n").rows()

    @pytest.mark.parametrize("session", [False, True])
    def test_windows_are_in_the_order_in_which_they_expire(self, open_store: Open, session: bool) -> None:
        store = open_store(MessageLayout(Order.TIME_OFFSET, session)).windows
        store.put(self.windows(("b", 0, 10, 1), ("a", 10, 20, 2)))
        store.put(self.windows(("a", 0, 10, 3)))
        by_start = [("a", 0, 3), ("b", 0, 1), ("a", 10, 2)]
        assert self.names(store.all()) == (sorted(by_start) if session else by_start)

    def test_what_is_known_of_a_window_is_replaced(self, open_store: Open) -> None:
        store = open_store(MessageLayout(Order.TIME_OFFSET)).windows
        for n in range(50):
            store.put(self.windows(("a", 0, 10, n), ("a", 10, 20, 0)))
        assert self.names(store.all()) == [("a", 0, 49), ("a", 10, 0)]

    def test_windows_that_share_a_position_with_a_range(self, open_store: Open) -> None:
        store = open_store(MessageLayout(Order.TIME_OFFSET)).windows
        store.put(self.windows(("a", 0, 10, 1), ("b", 5, 15, 2), ("a", 10, 20, 3)))
        assert self.names(store.overlapping(9, 10)) == [("a", 0, 1), ("b", 5, 2)]
        assert self.names(store.overlapping(10, 11)) == [("b", 5, 2), ("a", 10, 3)]
        assert self.names(store.overlapping(0, 99, session="b")) == [("b", 5, 2)]

    def test_a_window_is_forgotten(self, open_store: Open) -> None:
        store = open_store(MessageLayout(Order.TIME_OFFSET)).windows
        assert store.all() is None
        store.put(self.windows(("a", 0, 10, 1), ("a", 10, 20, 3)))
        store.delete(self.windows(("a", 0, 10, 7), ("c", 0, 10, 7)))
        assert self.names(store.all()) == [("a", 10, 3)]


def test_outputs_wait_until_they_are_taken(open_store: Open) -> None:
    store = open_store(MessageLayout(Order.TIME_OFFSET))
    for number in (3, 1, 2):
        store.keep(number, pl.DataFrame({"n": [number]}))
    store.drop(1)
    assert [(number, frame["n"].item()) for number, frame in store.outputs()] == [(2, 2), (3, 3)]


def test_a_file_holds_what_was_committed_and_nothing_else(tmp_path: Path) -> None:
    layout = MessageLayout(Order.EQUAL_TIME_OFFSET)
    store = SqliteStore(tmp_path / "a.db", layout)
    windows = TestWindows().windows(("a", 0, 10, 1))
    store.messages.put(FOUR[:2])
    store.windows.put(windows)
    store.keep(1, windows)
    store.commit(lambda: b"here")
    store.messages.put(FOUR)
    store.messages.expire(1000)
    store.windows.delete(windows)
    store.drop(1)
    store.close()
    again = SqliteStore(tmp_path / "a.db", layout)
    assert offsets(again.messages.read()) == [2, 1]
    assert again.messages.put(FOUR) == 2
    restored = again.windows.all()
    assert restored is not None and restored.height == 1
    assert [number for number, _ in again.outputs()] == [1]
    assert again.state() == b"here"
    again.close()


def test_a_store_has_one_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventide.standalone.stores.sqlite.PATIENCE", 0.01)
    store = SqliteStore(tmp_path / "a.db", LAYOUTS[0])
    with pytest.raises(DataError, match="in use"):
        SqliteStore(tmp_path / "a.db", LAYOUTS[0])
    store.close()


def test_a_file_of_another_kind_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_text("a letter, not a database, and long enough to be one" * 50)
    with pytest.raises(DataError, match="no store"):
        SqliteStore(tmp_path / "a.db", LAYOUTS[0])


def test_a_store_of_another_format_is_rejected(tmp_path: Path) -> None:
    import sqlite3

    SqliteStore(tmp_path / "a.db", LAYOUTS[0]).close()
    database = sqlite3.connect(tmp_path / "a.db")
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(DataError, match="format 99"):
        SqliteStore(tmp_path / "a.db", LAYOUTS[0])


def test_keys_are_equal_where_spark_says_so() -> None:
    frame = pl.DataFrame({"x": [0.0, -0.0, float("nan"), -float("nan"), None, None]})
    zero, minus, nan, other, null, void = frame.select(key=encoded(["x"], frame.schema))["key"]
    assert zero == minus and nan == other and null == void
    assert len({zero, nan, null}) == 3


def test_parts_of_a_key_do_not_run_together() -> None:
    frame = pl.DataFrame({"x": ["a", "ab", None, "-"], "y": ["bc", "c", "-", None]})
    keys = frame.select(key=encoded(["x", "y"], frame.schema))["key"]
    assert keys.n_unique() == 4
    assert encoded_key(("ab", "c"), ["x", "y"], frame.schema) == keys[1]


POINTS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 20), st.sampled_from("st"), st.sampled_from("ab")), max_size=12
)


@given(st.sampled_from(LAYOUTS), st.lists(POINTS, max_size=6), st.integers(-1, 21), st.data())
def test_reads_are_what_a_scan_of_all_messages_gives(
    layout: MessageLayout, bundles: list[list[tuple[int, int, str, str]]], floor: int, data: st.DataObject
) -> None:
    stores = [MemoryStore(layout), SqliteStore(":memory:", layout)]
    kept: dict[int, tuple[int, int, str, str]] = {}
    first: dict[int, tuple[int, int, str, str]] = {}
    for number, drawn in enumerate(bundles):
        bundle = [first.setdefault(row[0], row) for row in drawn]  # what comes again says the same
        if number == 3:
            kept = {offset: row for offset, row in kept.items() if row[1] >= floor}
        for row in bundle:
            if number < 3 or row[1] >= floor:
                kept.setdefault(row[0], row)
        for store in stores:
            if number == 3:
                store.messages.expire(floor)
            store.messages.put(messages(*bundle))
    start = data.draw(st.integers(0, 20))
    within = Range(start, start + data.draw(st.integers(0, 9)), data.draw(st.none() | st.integers(0, 30)), None)
    session, equal = data.draw(st.sampled_from([None, "s", "t"])), data.draw(st.sampled_from([None, "a", "b"]))
    model = sorted(
        (at, offset)
        for offset, at, of, key in kept.values()
        if (session in (None, of) and equal in (None, key) and within.start <= at < within.end)
        and (within.start_offset is None or at > within.start or offset >= within.start_offset)
    )
    for store in stores:
        read = store.messages.read(within, session=session, equal=equal)
        assert ([] if read is None else read.select("__at", "__offset").rows()) == model
        store.close()
