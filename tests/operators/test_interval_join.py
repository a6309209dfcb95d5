"""Rows of two streams that are near in time. Times are in microseconds; a bundle is ``(left rows, right rows)``."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.operators.operator import Output
from eventide.plan.join_plan import JoinPlan
from eventide.time import FIRST, LAST, MAX, MIN

LEFT = {"k": pl.String(), "t": pl.Int64(), "v": pl.Int64()}
RIGHT = {"k": pl.String(), "t": pl.Int64(), "w": pl.Int64()}


def us(n: int) -> timedelta:
    return timedelta(microseconds=n)


def stream(watermark: Any = None) -> ev.Stream:
    return ev.stream(time="t", key="k", watermark=watermark or ev.ascending())


def joined(lo: int, hi: int, how: Any = "inner", **options: Any) -> ev.Pipeline:
    return ev.join(stream(), stream(), within=(us(lo), us(hi)), how=how, **options)


class Query:
    """A join that takes bundles of ``(key, time)``; the value of a row counts the rows of its side."""

    def __init__(self, pipeline: ev.Pipeline) -> None:
        self.query = pipeline.start_local({"left": LEFT, "right": RIGHT})
        self.seen = [0, 0]

    def push(self, left: Any = (), right: Any = (), **options: Any) -> Output:
        frames = {}
        for side, (name, schema, rows) in enumerate((("left", LEFT, left), ("right", RIGHT, right))):
            numbered = [(key, time, self.seen[side] + i) for i, (key, time) in enumerate(rows)]
            self.seen[side] += len(numbered)
            frames[name] = pl.DataFrame(numbered, schema=schema, orient="row")
        return self.query.push(frames, **({"now": 0} | options))


def times(output: Output) -> list[tuple[int | None, int | None]]:
    return list(output.panes.select("t", "t_right").iter_rows())


def test_both_ends_of_the_interval_belong_to_it() -> None:
    query = Query(joined(-2, 3))
    output = query.push([("a", 10)], [("a", t) for t in range(6, 16)])
    assert times(output) == [(10, t) for t in (8, 9, 10, 11, 12, 13)]


def test_one_duration_is_either_direction() -> None:
    plan: JoinPlan = ev.join(stream(), stream(), within="5 minutes").plan
    assert (plan.lo, plan.hi) == (-300_000_000, 300_000_000)


def test_rows_match_across_bundles_whichever_arrives_first() -> None:
    query = Query(joined(-5, 5))
    assert times(query.push([("a", 1)])) == []
    assert times(query.push([], [("a", 2)])) == [(1, 2)]
    assert times(query.push([("a", 3)])) == [(3, 2)]


def test_pairs_are_in_the_order_in_which_their_rows_arrived() -> None:
    query = Query(joined(-90, 90))
    for many in (40, 10, 3, 1):  # so that state has several runs
        query.push([("a", 50)] * many)
    output = query.push([], [("a", 50), ("a", 51)])
    assert output.panes.select("v", "w").rows() == [(v, w) for v in range(54) for w in (0, 1)]


def test_other_keys_do_not_meet() -> None:
    assert times(Query(joined(-5, 5)).push([("a", 1)], [("b", 1)])) == []


def test_a_pair_has_the_key_once_then_each_side_and_a_diff() -> None:
    panes = Query(joined(0, 5)).push([("a", 1)], [("a", 2)]).panes
    assert dict(panes.schema) == {
        "k": pl.String,
        "t": pl.Int64,
        "v": pl.Int64,
        "t_right": pl.Int64,
        "w": pl.Int64,
        "diff": pl.Int8,
    }
    assert panes.rows() == [("a", 1, 0, 2, 0, 1)]


def test_a_row_is_dropped_when_the_other_side_has_passed_its_last_partner() -> None:
    query = Query(ev.join(stream(ev.no_watermark()), stream(), within=(us(0), us(5))))  # right rows never expire
    assert query.push([("a", 10)], [("b", 9)]).open_panes == 2
    assert query.push([], [("b", 15)]).open_panes == 3  # at 15 a partner of the row at 10 may still come
    assert query.push([], [("b", 16)]).open_panes == 3


def test_its_own_watermark_does_not_drop_a_row() -> None:
    query = Query(joined(0, 5))
    query.push([("a", 10), ("a", 1000)])
    assert times(query.push([], [("a", 12)])) == [(10, 12)]


def test_a_late_row_matches_nothing_and_is_emitted_with_its_side() -> None:
    query = Query(joined(0, 5))
    query.push([("a", 10)], [("a", 20)])
    output = query.push([("a", 9)], [("a", 14)], now=7)
    assert times(output) == []
    late = output.late.select("k", "ev_input", "left", "right", pl.col("ev_watermark", "ev_emitted_at").cast(pl.Int64))
    assert late.rows() == [
        ("a", "left", {"k": "a", "t": 9, "v": 1}, None, 10, 7),
        ("a", "right", None, {"k": "a", "t": 14, "w": 1}, 20, 7),
    ]
    assert output.counts.late == 2 and output.counts.balanced


def test_a_row_past_its_limit_meets_what_is_kept_but_is_not_kept_itself() -> None:
    query = Query(joined(0, 5, "left"))
    query.push([("a", 1)], [("a", 30)])
    query.push([], [("b", 40)])  # no right row before 40 is expected: left rows before 35 have all their partners
    output = query.push([("a", 25), ("a", 26), ("a", 2)])
    assert times(output) == [(25, 30), (26, 30), (2, None)]
    assert times(query.push([], [("a", 40)])) == []


def test_a_row_without_a_partner_is_padded_once_none_can_arrive() -> None:
    query = Query(joined(0, 5, "left"))
    assert times(query.push([("a", 10)], [("b", 15)])) == []
    assert times(query.push([], [("b", 16)])) == [(10, None)]
    assert times(query.push([], [("b", 17)])) == []


def test_a_row_that_has_met_one_is_never_padded() -> None:
    query = Query(joined(0, 5, "full"))
    query.push([("a", 10)], [("a", 12)])
    assert times(query.push([("b", 100)], [("b", 100)])) == [(100, 100)]


def test_rows_that_fail_the_condition_have_not_met() -> None:
    query = Query(joined(0, 5, "full", where=pl.col("v") > pl.col("w")))
    assert times(query.push([("a", 10)], [("a", 10)])) == []
    assert times(query.push([("b", 99)], [("b", 99)])) == [(10, None), (None, 10)]


def test_a_condition_that_is_null_does_not_hold() -> None:
    query = Query(joined(0, 5, where=pl.lit(None, pl.Boolean)))
    assert times(query.push([("a", 10)], [("a", 10)])) == []


@pytest.mark.parametrize(
    ("how", "expected"),
    [("inner", []), ("left", [(1, None)]), ("right", [(None, 1)]), ("full", [(1, None), (None, 1)])],
)
def test_a_null_key_equals_nothing_and_is_padded_at_once(how: str, expected: list[Any]) -> None:
    output = Query(joined(0, 5, how)).push([(None, 1)], [(None, 1)])
    assert times(output) == expected
    assert output.open_panes == 0 and output.counts.balanced


@pytest.mark.parametrize(
    ("how", "expected"),
    [("inner", []), ("left", [(50, None)]), ("right", [(None, 56)]), ("full", [(50, None), (None, 56)])],
)
def test_a_drained_join_pads_all_that_is_left(how: Any, expected: list[Any]) -> None:
    query = Query(ev.join(stream(ev.no_watermark()), stream(ev.no_watermark()), within=(us(0), us(5)), how=how))
    assert times(query.push([("a", 50)], [("a", 56)])) == []
    assert times(query.query.drain()) == expected


def test_a_row_without_a_time_is_a_dead_letter_with_its_side() -> None:
    output = Query(joined(0, 5)).push([("a", None)], [("a", 1)])
    assert output.dead.select("k", "ev_input", "ev_reason").rows() == [("a", "left", "null_time")]
    assert output.counts.dead == {"null_time": 1} and output.counts.balanced


def test_each_side_promises_of_its_own_time() -> None:
    left, right = stream(ev.ascending(watermark_key=1)), stream(ev.ascending(watermark_key=2))
    query = Query(ev.join(left, right, within=(us(-3), us(5)), how="full"))
    assert query.push([("a", 100)]).promises == {1: MIN, 2: MIN}
    output = query.push([], [("a", 50)])
    # A left row down to 45 may still meet a right one at 50. A right row down to 50 may come.
    assert output.promises == {1: 45, 2: 50}
    assert output.promise == 45 and output.watermark_us == 100
    assert query.push([], [("a", 200)]).promises == {1: 100, 2: 97}


def test_sides_with_one_watermark_key_promise_what_holds_of_both() -> None:
    query = Query(joined(-3, 5))
    output = query.push([("a", 100)], [("a", 200)])
    assert output.promises == {0: 97} and output.promise == 97


def test_watermarks_of_the_same_key_coalesce_as_the_least_of_the_inputs() -> None:
    # The example of keyed watermarks: (input, value) -> what goes on.
    query = Query(joined(0, 0))
    observed = []
    for edge, value in [(0, 10), (1, 12), (0, 11), (1, 13), (0, 14)]:
        rows: list[Any] = [[], []]
        rows[edge] = [("a", value)]
        observed.append(query.push(*rows).promise)
    assert observed == [MIN, 10, 11, 11, 13]


def test_a_silent_side_does_not_hold_rows_of_the_other_where_their_times_mean_the_same() -> None:
    silent = ev.ascending(idle_timeout="1 second")
    query = Query(ev.join(stream(), stream(silent), within=(us(0), us(5)), how="left"))
    query.push([("a", 10)], [("a", 1)])
    assert times(query.push([("a", 100)])) == []
    assert times(query.push([("a", 200)], now=2_000_000)) == [(10, None), (100, None)]


def test_a_silent_side_with_a_watermark_key_of_its_own_is_waited_for() -> None:
    silent = ev.ascending(idle_timeout="1 second", watermark_key=1)
    query = Query(ev.join(stream(), stream(silent), within=(us(0), us(5)), how="left"))
    query.push([("a", 10)], [("a", 1)])
    assert times(query.push([("a", 200)], now=2_000_000)) == []


def test_too_many_pairs_are_rejected_with_the_key_that_makes_them() -> None:
    query = Query(joined(-5, 5, max_matches=20))
    with pytest.raises(ev.DataError, match=r"more than 20 pairs of rows; the key 'hot' alone gives 25 or more"):
        query.push([("hot", 1)] * 5 + [("cold", 1)], [("hot", 1)] * 5 + [("cold", 1)])


def test_zero_and_negative_zero_are_one_key_and_nan_equals_nan() -> None:
    both = ev.join(*(ev.stream(time="t", key="k") for _ in range(2)), within="1 second")
    left = pl.DataFrame({"k": [0.0, float("nan"), 1.0], "t": [1, 2, 3]})
    right = pl.DataFrame({"k": [-0.0, float("nan"), 2.0], "t": [1, 2, 3]})
    assert both.local({"left": left, "right": right}).panes["t"].to_list() == [1, 2]


def test_times_before_the_epoch_are_times_like_others() -> None:
    assert times(Query(joined(-3, 0)).push([("a", -1)], [("a", -4), ("a", -5)])) == [(-1, -4)]


def test_rows_at_the_two_ends_of_time_are_far_apart() -> None:
    left, right = (ev.stream(time="t", key="k") for _ in range(2))
    query = Query(ev.join(left, right, within=(us(0), None), keep=us(2**60)))
    assert times(query.push([("a", LAST)], [("a", FIRST)])) == []
    assert times(query.push([("a", FIRST)], [("a", LAST)])) == [(LAST, LAST), (FIRST, FIRST), (FIRST, LAST)]


def test_columns_with_one_name_get_a_suffix() -> None:
    orders = ev.stream(time="t", key="id")
    payments = ev.stream(time="t", key="order")
    both = ev.join(orders, payments, within="1 second", suffix="_paid")
    left = pl.DataFrame({"id": [7], "t": [1], "sum": [5]})
    right = pl.DataFrame({"id": [99], "order": [7], "t": [2], "sum": [4]})
    assert both.local({"left": left, "right": right}).panes.to_dicts() == [
        {"id": 7, "t": 1, "sum": 5, "id_paid": 99, "t_paid": 2, "sum_paid": 4, "diff": 1}
    ]


def test_columns_may_be_equal_that_are_not_the_keys() -> None:
    both = ev.join(stream(), stream(), on={"v": "w"}, within="1 second")
    left, right = (
        pl.DataFrame([("a", 1, 5)], schema=LEFT, orient="row"),
        pl.DataFrame([("b", 1, 5)], schema=RIGHT, orient="row"),
    )
    assert both.local({"left": left, "right": right}).panes.to_dicts() == [
        {"v": 5, "k": "a", "t": 1, "k_right": "b", "t_right": 1, "diff": 1}
    ]


def test_a_windowed_aggregate_continues_with_what_a_join_gives() -> None:
    rows = {
        "left": [pl.DataFrame([("a", t, 0)], schema=LEFT, orient="row") for t in (1, 12, 30)],
        "right": [pl.DataFrame([("a", t + 1, 0)], schema=RIGHT, orient="row") for t in (1, 12, 30)],
    }
    per_ten = ev.stream(time="t", key="k").window(ev.tumbling(us(10))).agg(n=ev.count())
    result = joined(0, 5).then(per_ten).local(rows)
    assert result.panes["n"].to_list() == [1, 1, 1]
    assert result.late.is_empty()
    assert [step.panes.height for step in result.steps] == [0, 0, 2, 1]


def test_a_state_of_another_join_is_rejected() -> None:
    query = Query(joined(0, 5))
    query.push([("a", 1)])
    with pytest.raises(ev.PlanError, match="within"):
        joined(0, 6).start_local(saved=query.query.save())


def test_all_watermarks_end_where_both_sides_are_drained() -> None:
    left, right = stream(ev.ascending(watermark_key=1)), stream(ev.ascending(watermark_key=2))
    query = Query(ev.join(left, right, within="1 second"))
    query.push([("a", 100)])
    assert query.query.drain().promises == {1: MAX, 2: MAX}
