"""What becomes of a message: in time, late, replayed, too old, in one window or in many."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.errors import DataError, PlanError
from eventide.standalone import JoinWindow, SessionAggregator, SessionJoinWindow, WindowAggregator
from eventide.standalone.offsets import MAX_GAPS
from tests.standalone.conftest import Place
from tests.standalone.harness import at, emitted

TIMES: dict[str, Any] = {"time": "time", "offset": "offset"}


def message(offset: int, time: str, **columns: Any) -> dict[str, Any]:
    return {"offset": offset, "time": at(time), **columns}


def counting(window: Any, **options: Any) -> WindowAggregator:
    return WindowAggregator(window, {"n": ev.count()}, **TIMES, **options)


class TestPolicies:
    def test_a_window_is_emitted_once_when_the_first_message_reaches_its_end(self, place: Place) -> None:
        per_minute = counting(ev.tumbling("1 minute"), store=place())
        for offset, time in enumerate(["9:00:10", "9:00:59", "9:01:00"]):
            per_minute.add_message(message(offset, time), now=at(time))
        assert emitted(per_minute.get_result(), "n") == [("9:01:00", "9:00:00", "ON_TIME", 2)]

    def test_late_messages_are_collected_for_ten_seconds(self, place: Place) -> None:
        per_minute = counting(ev.tumbling("1 minute"), store=place())
        for offset, (time, now) in enumerate(
            [("9:00:10", "9:00:10"), ("9:01:30", "9:01:30"), ("9:00:20", "9:01:40"), ("9:00:30", "9:01:45")]
        ):
            per_minute.add_message(message(offset, time), now=at(now))
        per_minute.flush()
        per_minute.timeout(now=at("9:01:49"))
        assert per_minute.get_result().is_empty()
        per_minute.timeout(now=at("9:01:50"))
        assert emitted(per_minute.get_result(), "n") == [("9:01:50", "9:00:00", "LATE", 3)]

    def test_a_join_tells_each_message_at_once(self, place: Place) -> None:
        orders = JoinWindow(ev.tumbling("1 minute"), **TIMES, store=place())
        for offset, time in enumerate(["9:00:10", "9:01:30", "9:00:20"]):
            orders.add_message(message(offset, time), now=at("9:05:00"))
        assert emitted(orders.get_result(), "offset") == [
            ("9:05:00", "9:00:00", "EARLY", 0),
            ("9:05:00", "9:01:00", "EARLY", 1),
            ("9:05:00", "9:00:00", "LATE", 2),
        ]

    def test_the_panes_of_a_join_are_numbered_in_each_window(self, place: Place) -> None:
        orders = JoinWindow(ev.tumbling("1 minute"), **TIMES, store=place())
        for offset, time in enumerate(["9:00:10", "9:00:20", "9:01:30", "9:00:30", "9:01:40"]):
            orders.add_message(message(offset, time), now=at("9:05:00"))
        panes = orders.get_result().select("offset", "pane_timing", "pane_index")
        assert panes.rows() == [
            (0, "EARLY", 0),
            (1, "EARLY", 1),
            (2, "EARLY", 0),
            (3, "LATE", 2),
            (4, "EARLY", 1),
        ]

    def test_several_messages_are_one_step(self, place: Place) -> None:
        orders = JoinWindow(ev.tumbling("1 minute"), **TIMES, store=place())
        orders.add_message([message(2, "9:00:10"), message(1, "9:00:20")], now=at("9:05:00"))
        outputs = orders.get_result()
        assert outputs["offset"].to_list() == [1, 2]
        assert outputs["pane_number"].to_list() == [1, 1]

    def test_without_a_time_the_wall_clock_is_asked(self, place: Place) -> None:
        orders = JoinWindow(ev.tumbling("1 minute"), **TIMES, store=place())
        before = datetime.now(UTC)
        orders.add_message(message(1, "9:00:00"))
        assert orders.timeout()
        assert before <= orders.get_result()["emitted_at"].item() <= datetime.now(UTC)

    def test_no_messages_are_a_step_too(self, place: Place) -> None:
        orders = JoinWindow(ev.tumbling("1 minute"), **TIMES, store=place(), schema={"offset": int, "time": int})
        orders.add_message([], now=1)
        orders.add_message(pl.DataFrame(schema={"offset": pl.Int64, "time": pl.Int64}), now=2)
        assert orders.get_result().is_empty() and orders.checkpoint is None


class TestWindows:
    def test_an_aggregate_counts_a_message_in_all_of_its_windows(self, place: Place) -> None:
        sliding = counting(ev.sliding("2 minutes", every="1 minute"), early=ev.on_update(), store=place())
        sliding.add_message(message(1, "9:01:30"), now=at("9:01:30"))
        assert emitted(sliding.get_result(), "n") == [
            ("9:01:30", "9:00:00", "EARLY", 1),
            ("9:01:30", "9:01:00", "EARLY", 1),
        ]

    def test_a_join_tells_a_message_in_the_first_of_its_windows(self, place: Place) -> None:
        orders = JoinWindow(ev.sliding("2 minutes", every="1 minute"), **TIMES, store=place())
        orders.add_message(message(1, "9:01:30"), now=at("9:01:30"))
        assert emitted(orders.get_result(), "offset") == [("9:01:30", "9:00:00", "EARLY", 1)]

    def test_windows_without_messages_are_never_opened(self, place: Place) -> None:
        per_minute = counting(ev.tumbling("1 minute"), store=place())
        per_minute.add_message([message(1, "0:00:00"), message(2, "23:00:00")], now=at("23:00:00"))
        assert per_minute.get_windows().height == 2

    def test_row_windows_count_the_rows_of_each_key(self, place: Place) -> None:
        pairs = counting(ev.rows(2), key="shop", early=ev.on_update(), store=place())
        shops = ["kiel", "bonn", "kiel", "kiel", "bonn"]
        for offset, shop in enumerate(shops):
            pairs.add_message(message(offset, "9:00:00", shop=shop), now=at("9:00:00"))
        counts = [(row["shop"], row["window_start"], row["n"]) for row in pairs.get_result().iter_rows(named=True)]
        assert counts == [("kiel", 1, 1), ("bonn", 1, 1), ("kiel", 1, 2), ("kiel", 3, 1), ("bonn", 1, 2)]

    def test_null_is_a_key_like_any_other(self, place: Place) -> None:
        per_shop = counting(ev.tumbling("1 minute"), key="shop", early=ev.on_update(), store=place(), schema=None)
        per_shop.add_message([message(i, "9:00:00", shop=shop) for i, shop in enumerate(["a", None, None])], now=0)
        assert sorted(per_shop.get_result().select("shop", "n").rows(), key=str) == [("a", 1), (None, 2)]
        assert per_shop.get_windows(key=[None])["n"].to_list() == [2]

    def test_windows_are_looked_up_by_range_and_key(self, place: Place) -> None:
        per_shop = counting(ev.tumbling("1 minute"), key="shop", store=place())
        rows = [("9:00:10", "a"), ("9:01:10", "b"), ("9:02:10", "a")]
        per_shop.add_message([message(i, time, shop=shop) for i, (time, shop) in enumerate(rows)], now=0)
        assert per_shop.get_windows(at("9:01:00"), at("9:03:00"))["shop"].to_list() == ["b", "a"]
        windows = per_shop.get_windows(key="a")
        assert windows["window_start_offset"].to_list() == [0, 2]


class TestMessages:
    @pytest.mark.parametrize("aggregate", [ev.median("x"), ev.collect_list("x"), ev.collect_sorted("x")])
    def test_aggregates_that_need_every_value_keep_messages(self, place: Place, aggregate: Any) -> None:
        operator = WindowAggregator(ev.tumbling("1 minute"), {"x": aggregate}, **TIMES, store=place())
        operator.add_message([message(i, "9:00:00", x=x) for i, x in enumerate([5.0, 1.0])], now=0)
        assert operator.get_messages()["x"].to_list() == [5.0, 1.0]
        assert "kept, by time + offset" in operator.explain()

    @pytest.mark.parametrize("aggregate", [ev.count(), ev.sum("x"), ev.max("x"), ev.mean("x"), ev.first("x")])
    def test_aggregates_that_merge_keep_none(self, place: Place, aggregate: Any) -> None:
        operator = WindowAggregator(ev.tumbling("1 minute"), {"x": aggregate}, **TIMES, store=place())
        operator.add_message(message(1, "9:00:00", x=5.0), now=0)
        with pytest.raises(PlanError, match="stores no messages"):
            operator.get_messages()
        assert "none kept" in operator.explain()

    def test_a_median_follows_late_messages(self, place: Place) -> None:
        operator = WindowAggregator(
            ev.tumbling("1 minute"), {"x": ev.median("x"), "n": ev.count()}, **TIMES, late=ev.on_update(), store=place()
        )
        for offset, (time, x) in enumerate([("9:00:10", 1.0), ("9:00:20", 9.0), ("9:01:00", 0.0), ("9:00:30", 9.0)]):
            operator.add_message(message(offset, time, x=x), now=0)
        assert operator.get_result().select("x", "n").rows() == [(5.0, 2), (9.0, 3)]

    def test_a_join_looks_messages_up_by_key_and_range(self, place: Place) -> None:
        orders = JoinWindow(ev.tumbling("1 minute"), **TIMES, key="id", store=place(), early=ev.never())
        rows = [("9:00:10", 1), ("9:00:10", 1), ("9:01:10", 1), ("9:00:10", 2), ("9:00:20", None)]
        orders.add_message([message(i, time, id=id_) for i, (time, id_) in enumerate(rows)], now=0)

        def offsets(*args: Any, **options: Any) -> list[int]:
            return orders.get_messages(*args, **options)["offset"].to_list()

        assert offsets() == [0, 1, 3, 4, 2]
        assert offsets(key=1) == [0, 1, 2]
        assert offsets(at("9:00:00"), at("9:01:00"), key=1) == [0, 1]
        assert offsets(at("9:00:10"), at("9:01:00"), key=1, start_offset=1) == [1]
        assert offsets(at("9:00:00"), at("9:01:10"), key=1, end_offset=2) == [0, 1, 2]
        assert offsets(key=[None]) == []  # null equals nothing, not even null
        assert offsets(emitted_only=True) == [0, 1, 3, 4]  # the window of the third is not full

    def test_a_null_key_is_kept_and_can_be_read_by_range(self, place: Place) -> None:
        orders = JoinWindow(
            ev.tumbling("1 minute"),
            **TIMES,
            key="id",
            store=place(),
            schema={**dict.fromkeys(["offset", "id"], int), "time": str},
        )
        orders.add_message(message(1, "9:00:00", id=None), now=0)
        assert orders.get_messages().height == 1


class TestTypes:
    @pytest.mark.parametrize(
        ("first", "then"),
        [(5, 5.9), (5, "5"), (5, True), ("5", 5), (True, 1), (0.5, 2**53 + 1), ({"a": 5}, {"a": 5.9}), ([5], [5.9])],
    )
    def test_a_value_of_another_type_is_rejected_and_changes_nothing(self, place: Place, first: Any, then: Any) -> None:
        per_minute = counting(ev.tumbling("1 minute"), store=place())
        per_minute.add_message(message(1, "9:00:00", v=first), now=0)
        with pytest.raises(DataError, match=r"'v' has a value of type .* Cast the messages"):
            per_minute.add_message([message(2, "9:00:00", v=first), message(3, "9:00:00", v=then)], now=0)
        assert per_minute.checkpoint == 1

    def test_an_offset_is_not_rounded(self) -> None:
        per_minute = counting(ev.tumbling("1 minute"))
        per_minute.add_message(message(1, "9:00:00"), now=0)
        with pytest.raises(DataError, match="'offset' has a value of type Float64"):
            per_minute.add_message({"offset": 3.7, "time": at("9:00:00")}, now=0)

    def test_values_that_no_type_holds_together_are_rejected_with_the_first_messages(self) -> None:
        with pytest.raises(DataError, match="'v' has a value of type Int64"):
            counting(ev.tumbling("1 minute")).add_message(
                [message(1, "9:00:00", v=5), message(2, "9:00:00", v="five")], now=0
            )

    def test_a_type_takes_the_values_that_it_holds_exactly(self, place: Place) -> None:
        sums = WindowAggregator(
            ev.tumbling("1 minute"),
            {"sum": ev.sum("v"), "short": ev.sum("short")},
            **TIMES,
            store=place(),
            schema={"offset": pl.Int64, "time": pl.Datetime("us", "UTC"), "v": pl.Float64, "short": pl.Int8},
        )
        nine = datetime(2026, 3, 1, 10, tzinfo=timezone(timedelta(hours=1)))
        sums.add_message([{"offset": i, "time": nine, "v": v, "short": 5} for i, v in enumerate([1, 2.5, None])], now=0)
        with pytest.raises(DataError, match="'short' has a value of type Int64, but in this operator it is Int8"):
            sums.add_message({"offset": 9, "time": nine, "v": 1, "short": 300}, now=0)
        assert sums.get_windows().select("sum", "short").rows() == [(3.5, 15)]

    @pytest.mark.parametrize("as_frame", [False, True])
    def test_a_column_that_was_null_takes_the_type_of_its_first_value(self, place: Place, as_frame: bool) -> None:
        per_minute = WindowAggregator(ev.tumbling("1 minute"), {"n": ev.count("note")}, **TIMES, store=place())
        for offset, note in enumerate([None, "a", None, "b"]):
            noted = message(offset, "9:00:00", note=note)
            per_minute.add_message(pl.DataFrame([noted]) if as_frame else noted, now=0)
        assert per_minute.get_windows()["n"].to_list() == [2]
        with pytest.raises(DataError, match="'note' has a value of type Int64, but in this operator it is String"):
            per_minute.add_message(message(9, "9:00:00", note=5), now=0)

    def test_a_column_that_was_null_where_it_is_kept_needs_a_schema(self, place: Place) -> None:
        orders = JoinWindow(ev.tumbling("1 minute"), **TIMES, store=place())
        orders.add_message(message(1, "9:00:00", note=None), now=0)
        with pytest.raises(DataError, match=r"'note' .* was null in all messages before.* schema="):
            orders.add_message(message(2, "9:00:00", note="a"), now=0)


class TestReplays:
    def test_a_replay_changes_nothing(self, place: Place) -> None:
        per_minute = counting(ev.tumbling("1 minute"), early=ev.on_update(), store=place())
        for now, offset in enumerate([1, 2, 1, 2, 3, 2]):
            per_minute.add_message(message(offset, "9:00:00"), now=now)
        assert per_minute.get_result()["n"].to_list() == [1, 2, 3]
        assert per_minute.checkpoint == 3

    def test_a_message_that_arrives_twice_at_once_counts_once(self, place: Place) -> None:
        per_minute = counting(ev.tumbling("1 minute"), early=ev.on_update(), store=place())
        per_minute.add_message([message(1, "9:00:00"), message(1, "9:00:00")], now=0)
        assert per_minute.get_result()["n"].to_list() == [1]

    def test_offsets_that_arrive_late_are_no_replays(self, place: Place) -> None:
        per_minute = counting(ev.tumbling("1 minute"), early=ev.on_update(), store=place())
        for offset in (5, 3, 4, 3):
            per_minute.add_message(message(offset, "9:00:00"), now=0)
        assert per_minute.get_result()["n"].to_list() == [1, 2, 3]

    def test_an_offset_in_a_gap_that_was_forgotten_is_a_dead_letter(self, place: Place) -> None:
        store = place()
        sparse = pl.DataFrame({"offset": range(0, 2 * MAX_GAPS + 100, 2)}).with_columns(time=pl.lit(at("9:00:00")))
        per_minute = counting(ev.tumbling("1 minute"), store=store)
        per_minute.add_message(sparse, now=0)
        per_minute.flush()
        if store is not None:  # what was forgotten is known after a restart
            per_minute.close()
            per_minute = counting(ev.tumbling("1 minute"), store=store)
        per_minute.add_message([message(1, "9:00:00"), message(2 * MAX_GAPS - 1, "9:00:00")], now=0)
        per_minute.add_message(message(1, "noon"), now=0)
        assert per_minute.dead.select("offset", "ev_reason").rows() == [(1, "gap_forgotten"), (1, "gap_forgotten")]
        assert per_minute.get_windows()["n"].to_list() == [sparse.height + 1]


class TestRetention:
    def test_what_is_too_old_is_a_dead_letter(self, place: Place) -> None:
        per_minute = counting(ev.tumbling("1 minute"), allowed_lateness="5 minutes", store=place())
        for offset, time in enumerate(["9:10:00", "9:05:10", "9:04:59", "9:04:10"]):
            per_minute.add_message(message(offset, time), now=at("9:10:00"))
        assert per_minute.dead.select("offset", "ev_reason").rows() == [
            (2, "out_of_retention"),
            (3, "out_of_retention"),
        ]
        per_minute.add_message(message(2, "9:04:59"), now=at("9:10:00"))
        assert per_minute.dead.height == 2  # a replay is not buried twice

    def test_windows_out_of_retention_are_emitted_before_they_are_dropped(self, place: Place) -> None:
        per_minute = counting(
            ev.tumbling("1 minute"), allowed_lateness="1 minute", late=ev.every("1 hour"), store=place()
        )
        for offset, time in enumerate(["9:00:10", "9:01:10", "9:00:20", "9:10:00"]):
            per_minute.add_message(message(offset, time), now=at("9:10:00"))
        assert [(row[1:3], row[3]) for row in emitted(per_minute.get_result(), "n")] == [
            (("9:00:00", "ON_TIME"), 1),
            (("9:00:00", "LATE"), 2),
            (("9:01:00", "ON_TIME"), 1),
        ]
        assert per_minute.get_windows().height == 1

    def test_retention_by_rows_keeps_the_newest_windows(self, place: Place) -> None:
        per_minute = counting(ev.tumbling("1 minute"), limit_rows=3, store=place())
        times = ["9:00:00", "9:00:01", "9:01:00", "9:02:00", "9:03:00"]
        per_minute.add_message([message(i, time) for i, time in enumerate(times[:4])], now=0)
        assert per_minute.get_windows()["n"].to_list() == [1, 1]
        per_minute.add_message(message(9, "9:00:30"), now=0)
        assert per_minute.dead["ev_reason"].to_list() == ["out_of_retention"]

    def test_messages_go_with_their_last_window(self, place: Place) -> None:
        orders = JoinWindow(
            ev.sliding("2 minutes", every="1 minute"), **TIMES, allowed_lateness="1 minute", store=place()
        )
        for offset, time in enumerate(["9:00:30", "9:01:30", "9:03:00"]):
            orders.add_message(message(offset, time), now=0)
        # The window from 9:00 to 9:02 is gone, but the one from 9:01 to 9:03 is not.
        assert orders.get_messages()["offset"].to_list() == [1, 2]

    def test_row_windows_expire_by_rows(self, place: Place) -> None:
        orders = JoinWindow(ev.rows(2), **TIMES, limit_rows=3, store=place())
        orders.add_message([message(i, "9:00:00") for i in range(6)], now=0)
        assert orders.get_windows()["window_start"].to_list() == [3, 5]
        assert orders.get_messages()["offset"].to_list() == [2, 3, 4, 5]

    def test_a_key_that_counts_slowly_keeps_its_rows(self, place: Place) -> None:
        medians = WindowAggregator(
            ev.rows(4, every=2), {"x": ev.median("x")}, **TIMES, key="k", limit_rows=3, store=place()
        )
        medians.add_message(message(0, "9:00:00", k="slow", x=100.0), now=0)
        medians.add_message([message(i, "9:00:00", k="fast", x=float(i)) for i in range(1, 10)], now=0)
        medians.add_message([message(i, "9:00:00", k="slow", x=float(i)) for i in range(10, 14)], now=0)
        results = medians.get_result().select("k", "window_start", "x").rows()
        assert results == [("fast", 1, 2.5), ("fast", 3, 4.5), ("fast", 5, 6.5), ("slow", 1, 11.5)]

    def test_a_key_that_arrives_late_has_all_of_its_rows(self, place: Place) -> None:
        medians = WindowAggregator(
            ev.rows(2), {"m": ev.median("v"), "n": ev.count()}, **TIMES, key="k", limit_rows=4, store=place()
        )
        medians.add_message([message(i, "9:00:00", k="fast", v=0.0) for i in range(20)], now=0)
        medians.flush()
        medians.add_message([message(i, "9:00:00", k="new", v=float(i)) for i in range(20, 23)], now=0)
        assert medians.get_result().select("k", "m", "n").rows() == [("new", 20.5, 2)]

    def test_a_key_that_waits_does_not_hold_back_the_rows_of_others(self, place: Place) -> None:
        medians = WindowAggregator(
            ev.rows(4, every=2), {"m": ev.median("v")}, **TIMES, key="k", limit_rows=4, store=place()
        )
        medians.add_message(message(0, "9:00:00", k="slow", v=0.0), now=0)
        for i in range(1, 41):
            medians.add_message(message(i, "9:00:00", k="fast", v=float(i)), now=0)
        # Of 40 rows, those up to 37 are out of retention; the window from 35 to 38 is not, and needs its rows.
        assert medians.get_messages()["offset"].to_list() == [0, *range(35, 41)]

    def test_every_kind_of_fixed_window_will_do(self, place: Place) -> None:
        for window in (ev.calendar("day"), ev.cumulate("6 hours", "1 day"), ev.global_window()):
            operator = JoinWindow(window, **TIMES, allowed_lateness="1 hour", store=place())
            operator.add_message([message(0, "9:00:00"), message(1, "23:00:00")], now=0)
            assert operator.get_result()["offset"].to_list() == [0, 1]

    def test_the_dead_are_given_to_whom_they_concern(self) -> None:
        letters: list[pl.DataFrame] = []
        per_minute = counting(ev.sliding("1 minute", every="2 minutes", gaps="allowed"), dead=letters.append)
        per_minute.add_message(
            [{"offset": i, "time": time} for i, time in enumerate([at("9:01:00"), None, "noon", at("9:00:00")])], now=0
        )
        reasons = sorted(pl.concat(letters).select("offset", "ev_reason").rows())
        assert reasons == [(0, "no_window"), (1, "null_time"), (2, "bad_row")]
        assert per_minute.dead.is_empty()

    def test_a_message_that_an_aggregate_cannot_digest_is_a_dead_letter(self, place: Place) -> None:
        class Odd(ev.Aggregate):
            dtype = pl.Int64()

            def create(self) -> int:
                return 0

            def add(self, state: int, row: Any) -> int:
                return state + 1 // (row["x"] % 2)

            def merge(self, left: int, right: int) -> int:
                return left + right

        odd = WindowAggregator(ev.tumbling("1 minute"), {"odd": Odd()}, **TIMES, early=ev.on_update(), store=place())
        odd.add_message([message(i, "9:00:00", x=i) for i in range(4)], now=0)
        assert odd.get_result()["odd"].to_list() == [2]
        assert odd.dead.select("offset", "ev_reason").rows() == [(0, "failed"), (2, "failed")]


class TestSessions:
    def visits(self, **options: Any) -> SessionAggregator:
        return SessionAggregator(
            ev.sessions("30 minutes"),
            {"n": ev.count(), "last": ev.collect_list("offset")},
            **TIMES,
            key="user",
            **options,
        )

    def test_a_session_is_emitted_when_the_stream_has_passed_its_end(self, place: Place) -> None:
        visits = self.visits(store=place())
        for offset, (user, time) in enumerate([("ann", "9:00:00"), ("ann", "9:20:00"), ("bob", "9:50:00")]):
            visits.add_message(message(offset, time, user=user), now=at(time))
        assert emitted(visits.get_result(), "user", "n", "last") == [
            ("9:50:00", "9:00:00", "ON_TIME", "ann", 2, [0, 1])
        ]
        assert "session + time + offset" in visits.explain()

    def test_a_message_between_two_emitted_sessions_replaces_both(self, place: Place) -> None:
        visits = self.visits(late=ev.on_update(), store=place())
        rows = [("ann", "9:00:00"), ("ann", "10:00:00"), ("bob", "11:00:00"), ("ann", "9:30:00")]
        for offset, (user, time) in enumerate(rows):
            visits.add_message(message(offset, time, user=user), now=at("11:00:00"))
        last = visits.get_result().tail(1)
        assert emitted(last, "n", "last") == [("11:00:00", "9:00:00", "LATE", 3, [0, 3, 1])]
        assert [f"{old['window_start']:%H:%M}" for old in last["replaces"][0]] == ["09:00", "10:00"]
        assert visits.get_windows(key="ann").height == 1

    def test_sessions_expire_key_by_key(self, place: Place) -> None:
        visits = self.visits(allowed_lateness="1 hour", store=place())
        rows = [("ann", "9:00:00"), ("bob", "9:40:00"), ("eve", "10:35:00"), ("ann", "9:05:00")]
        for offset, (user, time) in enumerate(rows):
            visits.add_message(message(offset, time, user=user), now=at("10:35:00"))
        assert visits.get_windows()["user"].to_list() == ["bob", "eve"]
        assert visits.get_messages()["user"].to_list() == ["bob", "eve"]
        assert visits.dead["offset"].to_list() == [3]

    def test_a_row_session_ends_after_rows_without_its_key(self, place: Place) -> None:
        follow = SessionAggregator(
            ev.row_sessions(absent=2), {"n": ev.count()}, offset="offset", key="key", store=place()
        )
        for offset, key in enumerate("aababb"):
            follow.add_message({"offset": offset, "key": key}, now=offset)
        messages = follow.get_result()
        assert messages.select("key", "n").rows() == [("a", 3)]
        assert messages.select("window_start", "window_end").rows() == [(1, 7)]
        assert messages["emitted_at"].dt.epoch("us").to_list() == [5]

    def test_a_session_join_looks_up_by_session_and_join_key(self, place: Place) -> None:
        clicks = SessionJoinWindow(ev.sessions("30 minutes"), **TIMES, key="user", on="item", store=place())
        rows = [("ann", 1), ("ann", 2), ("bob", 1), ("ann", 1)]
        for offset, (user, item) in enumerate(rows):
            clicks.add_message(message(offset, "9:00:00", user=user, item=item), now=0)
        assert clicks.get_result()["offset"].to_list() == [0, 1, 2, 3]
        assert clicks.get_messages(key="ann")["offset"].to_list() == [0, 1, 3]
        assert clicks.get_messages(key="ann", on=1)["offset"].to_list() == [0, 3]
        assert clicks.get_messages(on=1)["offset"].to_list() == [0, 2, 3]
        assert clicks.get_windows(at("8:00:00"), at("9:00:01"), key="bob").height == 1


class TestRejections:
    @pytest.mark.parametrize(
        ("options", "what"),
        [
            ({"time": None}, "needs time"),
            ({"offset": 5}, "offset=5 is not a column name"),
            ({"allowed_lateness": "1 hous"}, "Did you mean 'hours'"),
            ({"allowed_lateness": 5}, "has no unit"),
            ({"limit_rows": 0}, "limit_rows=0"),
            ({"early": ev.on_update}, "Call it"),
            ({"window": ev.sessions("1 minute")}, "session operator"),
            ({"window": "1 minute"}, "ev.tumbling"),
            ({"aggregates": {}}, "no aggregate"),
            ({"aggregates": {"window_start": ev.count()}}, "every output has"),
            ({"window": ev.rows(2), "time": None, "allowed_lateness": "1 hour"}, "needs time="),
            ({"full": {"row": 3}}, "Did you mean 'rows'"),
            ({"full": {"rows": 0}}, "full={'rows'"),
            ({"full": 100}, "full={'rows'"),
            ({"window": ev.rows(2), "full": {"time": "1 minute"}}, "no end in time"),
            ({"window": ev.rows(2, forget_after="1 day")}, "forget_after= of the window needs a pipeline"),
            ({"window": ev.rows(2, timeout="1 day")}, "timeout= of the window needs a pipeline"),
        ],
    )
    def test_what_cannot_work_is_rejected_when_it_is_made(self, options: dict[str, Any], what: str) -> None:
        arguments = {"window": ev.tumbling("1 minute"), "aggregates": {"n": ev.count()}, **TIMES, **options}
        with pytest.raises(PlanError, match=what):
            WindowAggregator(**arguments)

    @pytest.mark.parametrize(
        "window", [ev.tumbling("1 minute"), ev.sessions("gap"), ev.sessions("1m", max_duration="1h")]
    )
    def test_sessions_need_one_gap(self, window: Any) -> None:
        with pytest.raises(PlanError, match="one gap for all"):
            SessionAggregator(window, {"n": ev.count()}, **TIMES, key="user")

    @pytest.mark.parametrize(
        ("rows", "what"),
        [
            ({"offset": 1}, "no column 'time'"),
            ({"offset": "1", "time": 0}, "offsets are integers"),
            ([1, 2], "not int"),
            ("text", "not str"),
            ({"offset": 1, "time": 0, "__x": 1}, "two underscores"),
        ],
    )
    def test_messages_that_do_not_fit_are_rejected(self, rows: Any, what: str) -> None:
        with pytest.raises(PlanError, match=what):
            counting(ev.tumbling("1 minute")).add_message(rows, now=0)

    def test_an_operator_has_one_schema_and_a_clock_that_goes_forward(self) -> None:
        per_minute = counting(ev.tumbling("1 minute"))
        per_minute.add_message({"offset": 1, "time": 0}, now=10)
        with pytest.raises(DataError, match="one schema"):
            per_minute.add_message({"offset": 2, "tme": 0}, now=10)
        with pytest.raises(DataError, match="Cast"):
            per_minute.add_message(pl.DataFrame({"offset": [2], "time": ["x"]}), now=10)
        with pytest.raises(DataError, match="went back"):
            per_minute.timeout(now=9)

    def test_a_duration_is_no_key(self) -> None:
        with pytest.raises(PlanError, match="'k' is a duration"):
            counting(ev.tumbling("1 minute"), key="k").add_message(
                {"offset": 1, "time": 0, "k": timedelta(seconds=1)}, now=0
            )

    def test_nested_keys_are_rejected(self) -> None:
        with pytest.raises(PlanError, match="plain value"):
            counting(ev.tumbling("1 minute"), key="k").add_message({"offset": 1, "time": 0, "k": [1]}, now=0)


class TestOverlappingJoins:
    def test_a_window_knows_all_of_its_messages(self, place: Place) -> None:
        orders = JoinWindow(ev.rows(3, every=1), offset="offset", store=place())
        for offset in range(1, 5):
            orders.add_message({"offset": offset}, now=0)
        facts = ["window_start", "window_start_offset", "window_last_offset", "window_rows"]
        windows = orders.get_windows(2, 5).select(facts)
        assert (2, 2, 4, 3) in windows.rows()

    def test_windows_that_contain_only_messages_of_earlier_windows_are_looked_up(self, place: Place) -> None:
        orders = JoinWindow(ev.sliding("3 minutes", every="1 minute"), **TIMES, store=place())
        orders.add_message(message(1, "9:01:10"), now=0)
        assert orders.get_windows(at("9:02:20"), at("9:02:21")).height == 2

    def test_each_message_is_emitted_once(self, place: Place) -> None:
        orders = JoinWindow(ev.sliding("3 minutes", every="1 minute"), **TIMES, store=place())
        for offset, time in enumerate(["9:01:10", "9:02:10", "9:09:00"]):
            orders.add_message(message(offset, time), now=at("9:10:00"))
        orders.timeout(now=at("9:20:00"))
        assert orders.get_result()["offset"].to_list() == [0, 1, 2]


@pytest.mark.parametrize("window", [ev.rows(3, by="nowhere"), ev.rows(3, every=1, by="offset")])
def test_windows_by_offset_are_rejected(window: Any) -> None:
    with pytest.raises(PlanError, match="rows are then counted as they arrive"):
        WindowAggregator(window, {"n": ev.count()}, **TIMES)


def test_row_sessions_by_offset_are_rejected() -> None:
    with pytest.raises(PlanError, match="rows are then counted as they arrive"):
        SessionAggregator(ev.row_sessions(absent=3, by="offset"), {"n": ev.count()}, **TIMES, key="user")


def test_offsets_without_times_bound_the_messages_that_are_read(place: Place) -> None:
    orders = JoinWindow(ev.tumbling("1 minute"), **TIMES, store=place())
    orders.add_message([message(offset, "9:00:10") for offset in range(1, 8)], now=0)
    assert orders.get_messages(start_offset=3, end_offset=5)["offset"].to_list() == [3, 4, 5]
    assert orders.get_messages(start_offset=6)["offset"].to_list() == [6, 7]
    assert orders.get_messages(end_offset=2)["offset"].to_list() == [1, 2]


def test_windows_of_messages_without_a_time_have_no_times(place: Place) -> None:
    counts = WindowAggregator(ev.rows(3), {"n": ev.count()}, offset="offset", store=place())
    counts.add_message([{"offset": 1}, {"offset": 2}], now=0)
    facts = ["window_first_time", "window_last_time", "window_start_offset", "window_last_offset"]
    assert counts.get_windows().select(facts).rows() == [(None, None, 1, 2)]


class TestFullSize:
    def test_a_window_can_wait_for_a_message_past_its_end(self, place: Place) -> None:
        per_minute = counting(ev.tumbling("1 minute"), full={"time": "30 seconds"}, store=place())
        for offset, time in enumerate(["9:00:10", "9:01:29", "9:00:20", "9:01:30"]):
            per_minute.add_message(message(offset, time), now=at("9:05:00"))
        assert emitted(per_minute.get_result(), "n") == [("9:05:00", "9:00:00", "ON_TIME", 2)]

    def test_a_window_can_be_full_with_so_many_messages(self, place: Place) -> None:
        per_minute = counting(ev.tumbling("1 minute"), full={"rows": 2}, late=ev.on_update(), store=place())
        for offset, time in enumerate(["9:00:10", "9:00:20", "9:00:30", "9:01:00", "9:02:00"]):
            per_minute.add_message(message(offset, time), now=at("9:05:00"))
        assert emitted(per_minute.get_result(), "n") == [
            ("9:05:00", "9:00:00", "ON_TIME", 2),
            ("9:05:00", "9:00:00", "LATE", 3),
            ("9:05:00", "9:01:00", "ON_TIME", 1),
        ]

    def test_row_windows_can_be_full_before_their_end(self, place: Place) -> None:
        counts = counting(ev.rows(3), full={"rows": 2}, late=ev.never(), store=place())
        counts.add_message(message(1, "9:00:00"), now=0)
        assert counts.get_result().is_empty()
        counts.add_message(message(2, "9:00:00"), now=0)
        assert counts.get_result()["n"].to_list() == [2]

    def test_explain_says_when_windows_are_full(self) -> None:
        chosen = counting(ev.tumbling("1 minute"), full={"time": "30 seconds", "rows": 100})
        assert "; when full (30s past the end, or 100 messages); late:" in chosen.explain()


class TestRowWindows:
    def test_full_row_windows_expire_by_the_age_of_their_messages(self, place: Place) -> None:
        orders = JoinWindow(ev.rows(2), **TIMES, allowed_lateness="1 hour", store=place())
        times = ["9:00:00", "9:10:00", "9:20:00", "9:30:00", "10:09:00"]
        orders.add_message([message(i, time) for i, time in enumerate(times)], now=0)
        assert orders.get_messages()["offset"].to_list() == [0, 1, 2, 3, 4]
        orders.add_message(message(5, "10:10:00"), now=0)
        assert orders.get_messages()["offset"].to_list() == [2, 3, 4, 5]
        assert orders.get_windows()["window_start"].to_list() == [3, 5]

    def test_rows_and_time_bound_row_windows_together(self, place: Place) -> None:
        orders = JoinWindow(ev.rows(2), **TIMES, allowed_lateness="1 hour", limit_rows=3, store=place())
        orders.add_message([message(i, "9:00:00") for i in range(6)], now=0)
        assert orders.get_messages()["offset"].to_list() == [2, 3, 4, 5]
        orders.add_message(message(6, "10:00:00"), now=0)
        assert orders.get_messages()["offset"].to_list() == [6]

    def test_an_old_window_behind_a_young_one_waits_for_it(self, place: Place) -> None:
        orders = JoinWindow(ev.rows(1), **TIMES, allowed_lateness="1 hour", store=place())
        times = ["9:30:00", "9:00:00", "10:00:00", "10:10:00"]
        orders.add_message([message(i, time) for i, time in enumerate(times)], now=0)
        assert orders.get_messages()["offset"].to_list() == [0, 1, 2, 3]
        orders.add_message(message(4, "10:30:00"), now=0)
        assert orders.get_messages()["offset"].to_list() == [2, 3, 4]

    def test_a_window_that_is_not_full_stays(self, place: Place) -> None:
        medians = WindowAggregator(
            ev.rows(2), {"m": ev.median("v")}, **TIMES, key="k", allowed_lateness="1 hour", store=place()
        )
        medians.add_message([message(i, "9:00:00", k="a", v=float(i)) for i in range(3)], now=0)
        medians.add_message(message(3, "9:00:00", k="b", v=3.0), now=0)
        medians.add_message(message(4, "12:00:00", k="c", v=4.0), now=0)
        assert sorted(medians.get_messages()["offset"]) == [2, 3, 4]
        medians.add_message(message(5, "12:00:00", k="a", v=4.0), now=0)
        medians.add_message(message(6, "12:00:00", k="a", v=4.0), now=0)
        assert medians.get_result().filter(k="a")["m"].to_list() == [0.5, 3.0]

    def test_row_sessions_expire_by_the_age_of_their_messages(self, place: Place) -> None:
        visits = SessionAggregator(
            ev.row_sessions(absent=1), {"n": ev.count()}, **TIMES, key="k", allowed_lateness="1 hour", store=place()
        )
        keys = ["a", "a", "b", "b", "c"]
        visits.add_message([message(i, f"9:0{i}:00", k=key) for i, key in enumerate(keys)], now=0)
        visits.add_message(message(5, "10:01:00", k="c"), now=0)
        assert visits.get_windows()["k"].to_list() == ["b", "c"]

    def test_an_age_outlives_a_restart(self, tmp_path: Path) -> None:
        def opened() -> JoinWindow:
            return JoinWindow(ev.rows(1), **TIMES, allowed_lateness="1 hour", store=tmp_path / "store.db")

        with opened() as orders:
            orders.add_message([message(i, time) for i, time in enumerate(["9:00:00", "9:30:00", "10:00:00"])], now=0)
            orders.flush()
        with opened() as orders:
            assert orders.get_messages()["offset"].to_list() == [1, 2]
            orders.add_message(message(3, "9:50:00"), now=0)
            assert orders.get_messages()["offset"].to_list() == [1, 2, 3]

    def test_row_windows_are_looked_up_by_offset(self, place: Place) -> None:
        orders = JoinWindow(ev.rows(2), offset="offset", store=place())
        orders.add_message([{"offset": offset} for offset in (100, 110, 120, 130, 140)], now=0)

        def starts(*bounds: Any) -> list[int]:
            return orders.get_windows(*bounds)["window_start_offset"].to_list()

        assert starts() == [100, 120, 140]
        assert starts(100, 101) == [100] and starts(120) == [120, 140] and starts(None, 120) == [100]
        assert starts(105, 125) == [100, 120]
        assert starts(1, 5) == []

    def test_windows_of_keys_that_count_by_themselves_lie_in_the_order_of_their_offsets(self, place: Place) -> None:
        counts = WindowAggregator(ev.rows(2), {"n": ev.count()}, offset="offset", key="k", store=place())
        counts.add_message([{"offset": i, "k": key} for i, key in enumerate("aaabab")], now=0)
        facts = counts.get_windows().select("k", "window_start_offset").rows()
        assert facts == [("a", 0), ("a", 2), ("b", 3)]
        assert counts.get_windows(2, 3, key="a").height == 1

    def test_messages_of_row_windows_are_read_by_offset(self, place: Place) -> None:
        orders = JoinWindow(ev.rows(2), offset="offset", store=place())
        orders.add_message([{"offset": offset} for offset in (100, 110, 120, 130, 140)], now=0)

        def read(*bounds: Any, **options: Any) -> list[int]:
            return orders.get_messages(*bounds, **options)["offset"].to_list()

        assert read(110, 130) == [110, 120]
        assert read(start_offset=110, end_offset=130) == [110, 120, 130]
        assert read(110, end_offset=120) == [110, 120]
        assert read(1, 5) == []

    def test_row_windows_are_not_found_by_time(self, place: Place) -> None:
        orders = JoinWindow(ev.rows(2), **TIMES, store=place())
        orders.add_message(message(1, "9:00:00"), now=0)
        with pytest.raises(PlanError, match="found by offset"):
            orders.get_windows(at("9:00:00"))
