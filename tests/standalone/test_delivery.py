"""Outputs that are rejected, delivered or flushed, and the state after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.errors import PlanError
from eventide.standalone import JoinWindow, Rejected, WindowAggregator
from tests.standalone.conftest import Place
from tests.standalone.harness import at

TIMES: dict[str, Any] = {"time": "time", "offset": "offset"}
WINDOW = ev.tumbling("1 minute")


def message(offset: int, time: str = "9:00:00", **columns: Any) -> dict[str, Any]:
    return {"offset": offset, "time": at(time), **columns}


class Receiver:
    """Takes so many outputs, then rejects."""

    def __init__(self, room: int, *, raises: bool = False) -> None:
        self.room = room
        self.raises = raises
        self.taken: list[int] = []

    def __call__(self, output: pl.DataFrame) -> bool:
        if not self.room:
            if self.raises:
                raise Rejected("full")
            return False
        self.room -= 1
        self.taken += output["offset"].to_list()
        return True


@pytest.mark.parametrize("raises", [False, True])
class TestRejection:
    def test_a_rejected_output_stops_messages_until_it_is_taken(self, place: Place, raises: bool) -> None:
        receiver = Receiver(1, raises=raises)
        orders = JoinWindow(WINDOW, **TIMES, downstream=receiver, store=place())
        orders.add_message(message(1), now=1)
        orders.add_message(message(2), now=2)  # taken in, but what it brings is rejected
        with pytest.raises(Rejected, match="1 are pending"):
            orders.add_message(message(3), now=3)
        assert not orders.timeout(now=4)
        receiver.room = 5
        assert orders.timeout(now=5)
        orders.add_message(message(3), now=6)
        assert receiver.taken == [1, 2, 3]

    def test_sending_continues_where_it_stopped(self, place: Place, raises: bool) -> None:
        receiver = Receiver(2, raises=raises)
        orders = JoinWindow(WINDOW, **TIMES, downstream=receiver, store=place())
        orders.add_message([message(i, f"9:0{i}:00") for i in range(5)], now=1)
        assert receiver.taken == [0, 1]
        assert orders.get_result()["offset"].to_list() == [2, 3, 4]
        receiver.room = 1
        assert not orders.timeout(now=2)
        receiver.room = 9
        assert orders.timeout(now=3)
        assert receiver.taken == [0, 1, 2, 3, 4]
        assert orders.get_result().is_empty()

    def test_outputs_that_become_due_while_rejecting_are_emitted_afterwards(self, place: Place, raises: bool) -> None:
        receiver = Receiver(0, raises=raises)
        orders = JoinWindow(WINDOW, **TIMES, early=ev.every("10 seconds"), downstream=receiver, store=place())
        orders.add_message([message(1, "9:00:00"), message(2, "9:01:00")], now=at("9:01:00"))
        assert not orders.timeout(now=at("9:05:00"))
        receiver.room = 9
        assert orders.timeout(now=at("9:06:00"))
        assert receiver.taken == [1, 2]


def test_an_error_of_the_receiver_is_no_rejection_and_loses_nothing(place: Place) -> None:
    room: list[str] = []

    def receiver(output: pl.DataFrame) -> None:
        if not room:
            raise RuntimeError("broken")
        room.append(str(output["offset"].item()))

    orders = JoinWindow(WINDOW, **TIMES, downstream=receiver, store=place())
    with pytest.raises(RuntimeError, match="broken"):
        orders.add_message(message(1), now=1)
    room.append("repaired")
    assert orders.timeout(now=2)
    assert room == ["repaired", "1"]


def test_operators_can_be_chained(place: Place) -> None:
    totals = WindowAggregator(ev.rows(2), {"sum": ev.sum("n")}, offset="number", early=ev.on_update(), store=place())

    def forward(output: pl.DataFrame) -> None:
        number = pl.col("pane_number").alias("number")
        totals.add_message(output.select("n", number), now=output["emitted_at"][0])

    counts = WindowAggregator(WINDOW, {"n": ev.count()}, **TIMES, downstream=forward, store=place())
    for offset, time in enumerate(["9:00:00", "9:00:30", "9:01:00", "9:02:00", "9:03:00"]):
        counts.add_message(message(offset, time), now=at(time))
    assert totals.get_result()["sum"].to_list() == [2, 3, 1]


class TestResults:
    def test_results_stay_until_they_are_flushed(self, place: Place) -> None:
        orders = JoinWindow(WINDOW, **TIMES, store=place())
        orders.add_message(message(1), now=1)
        assert orders.get_result().equals(orders.get_result())
        assert orders.get_result().height == 1
        orders.flush()
        assert orders.get_result().is_empty()
        assert orders.get_result().columns == [
            "offset",
            "time",
            "window_start",
            "window_end",
            "pane_timing",
            "pane_index",
            "emitted_at",
            "pane_number",
        ]

    def test_nothing_is_known_before_the_first_message(self, place: Place) -> None:
        orders = JoinWindow(WINDOW, **TIMES, store=place())
        assert orders.get_result().is_empty()
        assert orders.timeout(now=1)
        with pytest.raises(PlanError, match="schema="):
            orders.get_messages()


class TestRestart:
    def test_an_operator_continues_where_it_was(self, tmp_path: Path) -> None:
        def open_() -> WindowAggregator:
            return WindowAggregator(WINDOW, {"n": ev.count()}, **TIMES, key="k", store=tmp_path / "s.db")

        with open_() as counts:
            assert counts.recover_from() is None
            counts.add_message([message(1, k="a"), message(2, k="b")], now=1)
            counts.flush()
        with open_() as counts:
            assert counts.recover_from() == 3
            counts.add_message([message(2, k="b"), message(3, k="b"), message(4, "9:01:00", k="a")], now=2)
            assert sorted(counts.get_result().select("k", "n").rows()) == [("a", 1), ("b", 2)]

    def test_outputs_that_were_not_taken_are_there_again_under_their_number(self, tmp_path: Path) -> None:
        def open_(**options: Any) -> JoinWindow:
            return JoinWindow(WINDOW, **TIMES, store=tmp_path / "s.db", **options)

        with open_() as orders:
            orders.add_message(message(1), now=1)
            before = orders.get_result()
        with open_() as orders:
            assert orders.get_result().equals(before)
        receiver = Receiver(9)
        with open_(downstream=receiver) as orders:
            with pytest.raises(Rejected):
                orders.add_message(message(2), now=2)
            assert orders.timeout(now=2)
            orders.add_message(message(2), now=2)
        assert receiver.taken == [1, 2]

    def test_what_was_not_committed_is_read_again(self, tmp_path: Path) -> None:
        def open_() -> WindowAggregator:
            return WindowAggregator(WINDOW, {"n": ev.count()}, **TIMES, store=tmp_path / "s.db")

        with open_() as counts:
            counts.add_message(message(1), now=1)  # opens a window, and so is durable
            counts.add_message(message(2), now=2)
        with open_() as counts:
            assert counts.recover_from() == 2

    def test_a_message_that_others_overtook_is_durable_at_once(self, tmp_path: Path) -> None:
        def open_() -> WindowAggregator:
            return WindowAggregator(WINDOW, {"sum": ev.sum("offset")}, **TIMES, store=tmp_path / "s.db")

        with open_() as sums:
            sums.add_message([message(1), message(5)], now=1)
            sums.flush()
            sums.add_message(message(3), now=2)  # opens nothing and tells nothing
        with open_() as sums:
            assert sums.recover_from() == 6
            assert sums.get_windows()["sum"].to_list() == [9]

    def test_lost_messages_are_read_again_from_the_start_of_the_earliest_window(self, tmp_path: Path) -> None:
        def open_() -> WindowAggregator:
            aggregates = {"x": ev.median("x"), "n": ev.count()}
            return WindowAggregator(WINDOW, aggregates, **TIMES, late=ev.on_update(), store=tmp_path / "s.db")

        rows = [message(i, time, x=x) for i, time, x in [(7, "9:00:00", 1.0), (8, "9:00:10", 3.0), (9, "9:01:00", 5.0)]]
        with open_() as medians:
            medians.add_message(rows, now=1)
            assert medians.get_result()["x"].to_list() == [2.0]
            medians.flush()
        from tests.standalone.test_histories import lose_messages

        lose_messages(tmp_path / "s.db")
        with open_() as medians:
            assert medians.recover_from() == 7
            medians.add_message(rows[:2], now=0)  # as it was then: replays may bring their old times along
            assert medians.get_result().is_empty()  # emitted outputs are not emitted again
            medians.add_message([*rows[2:], message(10, "9:00:20", x=8.0)], now=3)
            assert medians.get_result().select("x", "n").rows() == [(3.0, 3)]
            assert medians.recover_from() == 11

    def test_lost_messages_are_read_again_in_any_order_of_their_offsets(self, tmp_path: Path) -> None:
        def open_() -> WindowAggregator:
            return WindowAggregator(
                WINDOW, {"x": ev.median("x")}, **TIMES, late=ev.on_update(), store=tmp_path / "s.db"
            )

        rows = [message(offset, "9:00:10", x=float(offset)) for offset in (1, 2, 5, 3, 4)]
        with open_() as medians:
            for row in rows:
                medians.add_message(row, now=1)
            medians.flush()
        from tests.standalone.test_histories import lose_messages

        lose_messages(tmp_path / "s.db")
        with open_() as medians:
            assert medians.recover_from() == 1
            for row in rows:
                medians.add_message(row, now=2)
            medians.add_message(message(6, "9:01:00", x=0.0), now=3)
            assert medians.get_result()["x"].to_list() == [3.0]

    def test_a_join_over_overlapping_windows_recovers_all_that_its_windows_hold(self, tmp_path: Path) -> None:
        def open_() -> JoinWindow:
            window = ev.rows(3, every=1)
            return JoinWindow(window, offset="offset", limit_rows=5, store=tmp_path / "s.db")

        with open_() as orders:
            for offset in range(1, 9):
                orders.add_message({"offset": offset}, now=1)
            orders.flush()
            kept = orders.get_messages()["offset"].to_list()
        from tests.standalone.test_histories import lose_messages

        lose_messages(tmp_path / "s.db")
        with open_() as orders:
            assert orders.recover_from() == kept[0]
            orders.add_message([{"offset": offset} for offset in kept], now=2)
            assert orders.get_messages()["offset"].to_list() == kept
            assert orders.recover_from() == 9

    @pytest.mark.parametrize(
        ("other", "what"),
        [
            ({"window": ev.tumbling("2 minutes")}, "windows: was tumbling 1m, is tumbling 2m"),
            ({"aggregates": {"n": ev.sum("offset")}}, "windows hold"),
            ({"late": ev.on_update()}, "policies"),
            ({"key": "k"}, "key"),
        ],
    )
    def test_a_store_belongs_to_one_operator(self, tmp_path: Path, other: dict[str, Any], what: str) -> None:
        options = {"window": WINDOW, "aggregates": {"n": ev.count()}, **TIMES, "store": tmp_path / "s.db"}
        with WindowAggregator(**options) as counts:
            counts.add_message(message(1), now=1)
        with pytest.raises(PlanError, match=what):
            WindowAggregator(**(options | other))
        WindowAggregator(**options).close()  # and it was let go
