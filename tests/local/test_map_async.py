"""Rows that are asked about before anything else becomes of them."""

from __future__ import annotations

import asyncio
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eventide as ev
from eventide.local import LocalResult
from eventide.operators.factory import loaded, operator_of
from eventide.operators.operator import Bundle, Counts
from eventide.spark import shuffle_pages as page
from eventide.spark.stamp import split_stamp
from eventide.time import MIN
from tests.effort import examples
from tests.state.harness import Paged, Store

S = 1_000_000
SCHEMA = {"t": pl.Int64, "k": pl.String, "v": pl.Int64}
STREAM = ev.stream(time="t", key="k", watermark=ev.ascending())
DOUBLED = {"w": pl.Int64}


def rows(*of: tuple[int, str, int]) -> pl.DataFrame:
    return pl.DataFrame([(t * S, k, v) for t, k, v in of], schema=SCHEMA, orient="row")


async def double(row: dict[str, Any]) -> dict[str, Any]:
    return {"w": 2 * row["v"]}


def summed(fn: Any, *bundles: pl.DataFrame, output: Any = None, stream: Any = STREAM, **options: Any) -> LocalResult:
    """All rows in lists of one window."""
    mapped = stream.map_async(fn, output=output or DOUBLED, **{"retries": 0, **options})
    pipeline = mapped.window(ev.global_window()).agg(w=ev.collect_list("w"), n=ev.count())
    result = pipeline.local(list(bundles), clock=list(range(len(bundles))))
    assert result.metrics.balanced
    return result


def test_results_of_calls_are_added_to_the_row() -> None:
    result = summed(double, rows((1, "a", 1), (2, "b", 2)), rows((3, "a", 3)))
    assert result.panes.select("k", "w").rows() == [("a", [2, 6]), ("b", [4])]


def test_a_bundle_without_rows_calls_nobody() -> None:
    async def never(row: dict[str, Any]) -> None:
        raise AssertionError

    assert summed(never, rows()).panes.height == 0


def test_none_drops_the_row_and_a_list_makes_several() -> None:
    async def some(row: dict[str, Any]) -> Any:
        return None if row["v"] == 0 else [{"w": i} for i in range(row["v"])]

    result = summed(some, rows((1, "a", 0), (2, "a", 3), (3, "a", 1)))
    assert result.panes["w"].to_list() == [[0, 1, 2, 0]]
    assert result.metrics.rows == 4  # rows are counted behind the calls


def test_the_key_may_come_from_a_call_and_the_time_too() -> None:
    async def located(row: dict[str, Any]) -> dict[str, Any]:
        return {"shop": row["k"].upper(), "at": row["t"] + 60 * S}

    stream = ev.stream(time="at", key="shop", watermark=ev.ascending())
    mapped = stream.map_async(located, output={"shop": pl.String, "at": pl.Int64})
    result = mapped.window(ev.tumbling("1m")).agg(n=ev.count()).local(rows((1, "a", 1)), clock=[0], drain=False)
    assert result.steps[-1].watermark_us == 61 * S
    assert result.steps[-1].open_panes == 1


def test_a_column_of_the_row_can_be_replaced_where_a_call_says_so() -> None:
    async def repair(row: dict[str, Any]) -> dict[str, Any]:
        return {"v": 9} if row["v"] < 0 else {}

    mapped = STREAM.map_async(repair, output={"v": pl.Int64})
    result = (
        mapped.window(ev.global_window()).agg(v=ev.collect_list("v")).local(rows((1, "a", -1), (2, "a", 4)), clock=[0])
    )
    assert result.panes["v"].to_list() == [[9, 4]]


def test_calls_can_follow_each_other() -> None:
    async def add(row: dict[str, Any]) -> dict[str, Any]:
        if row["w"] == 4:
            raise ValueError(row["w"])
        return {"x": row["w"] + 1}

    mapped = STREAM.map_async(double, output=DOUBLED).map_async(add, output={"x": pl.Int64}, retries=0)
    result = (
        mapped.window(ev.global_window()).agg(x=ev.collect_list("x")).local(rows((1, "a", 1), (2, "a", 2)), clock=[0])
    )
    assert result.panes["x"].to_list() == [[3]]
    assert result.dead.select("v", "w", "x").rows() == [(2, 4, None)]


# Failures


async def odd_only(row: dict[str, Any]) -> dict[str, Any]:
    if row["v"] % 2 == 0:
        raise ValueError("even")
    return {"w": row["v"]}


def test_a_row_whose_call_fails_is_a_dead_letter() -> None:
    result = summed(odd_only, rows((1, "a", 1), (2, "a", 2), (3, "b", 4)))
    assert result.panes["w"].to_list() == [[1]]
    assert result.dead.select("t", "k", "v", "w", "ev_reason", "ev_detail").rows() == [
        (2 * S, "a", 2, None, "failed", "ValueError: even (in odd_only, attempt 1)"),
        (3 * S, "b", 4, None, "failed", "ValueError: even (in odd_only, attempt 1)"),
    ]
    assert result.metrics.dead == {"failed": 2}


def test_a_call_is_tried_again_so_many_times() -> None:
    tries: dict[int, int] = {}

    async def third_time(row: dict[str, Any]) -> dict[str, Any]:
        tries[row["v"]] = tries.get(row["v"], 0) + 1
        if tries[row["v"]] < row["v"]:
            raise OSError("away")
        return {"w": row["v"]}

    result = summed(third_time, rows((1, "a", 3), (1, "a", 4)), retries=2, backoff="0s")
    assert result.panes["w"].to_list() == [[3]]
    assert tries == {3: 3, 4: 3}
    assert result.dead["ev_detail"].to_list() == ["OSError: away (in third_time, attempt 3)"]


def test_a_call_without_an_answer_in_time_has_failed() -> None:
    async def silent(row: dict[str, Any]) -> dict[str, Any]:
        if row["v"] == 0:
            await asyncio.Event().wait()
        return {"w": row["v"]}

    result = summed(silent, rows((1, "a", 0), (2, "a", 1)), timeout="20 ms", capacity=1)
    assert result.panes["w"].to_list() == [[1]]
    assert result.dead["ev_detail"].to_list() == ["no answer within 20ms (in silent, attempt 1)"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (5, "it returned int, not a dict"),
        ("text", "it returned str"),
        ([{"w": 1}, 5], "it returned int"),
        ({"w": "many"}, "'w' is 'many', which is not Int64 as declared"),
        ({"w": 1.5}, "'w' is 1.5, which is not Int64"),
        ({"ww": 1}, "'ww' was not declared. Did you mean 'w'?"),
        ([{"w": 1}, {"w": "many"}], "'w' is 'many'"),
    ],
)
def test_an_answer_that_does_not_fit_is_a_failure_of_its_row_alone(answer: Any, why: str) -> None:
    async def odd(row: dict[str, Any]) -> Any:
        return answer if row["v"] == 0 else {"w": row["v"]}

    result = summed(odd, rows((1, "a", 1), (2, "a", 0), (3, "a", 2)))
    assert result.panes["w"].to_list() == [[1, 2]]
    assert result.dead["v"].to_list() == [0] and why in result.dead["ev_detail"][0]


# Order and capacity


def waiting_for_the_last() -> Any:
    """The first row's call ends after that of the last."""
    done = []

    async def fn(row: dict[str, Any]) -> dict[str, Any]:
        while row["v"] == 0 and not done:
            await asyncio.sleep(0)
        if row["v"] == 2:
            done.append(True)
        return {"w": row["v"]}

    return fn


class AsTheyCome(ev.Processor):
    def process(self, edge: str, rows: pl.DataFrame) -> None:
        self.emit(rows.select("w"))


@pytest.mark.parametrize(("ordered", "expected"), [(True, [0, 1, 2]), (False, [1, 2, 0])])
def test_rows_keep_their_order_if_they_shall(ordered: bool, expected: list[int]) -> None:
    mapped = STREAM.map_async(waiting_for_the_last(), output=DOUBLED, ordered=ordered)
    result = mapped.process(AsTheyCome(), output=DOUBLED).local(rows((1, "a", 0), (1, "a", 1), (1, "a", 2)), clock=[0])
    assert result.panes["w"].to_list() == expected


def test_so_many_calls_run_at_a_time_and_not_more() -> None:
    running, most = 0, 0

    async def counted(row: dict[str, Any]) -> dict[str, Any]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(row["v"]):
            await asyncio.sleep(0)
        running -= 1
        return {"w": row["v"]}

    summed(counted, rows(*((i, "a", i % 5) for i in range(30))), capacity=4)
    assert most == 4


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.booleans()), max_size=12), st.integers(1, 5))
def test_no_row_is_lost_for_any_result_of_the_calls(calls: list[tuple[int, int, bool]], capacity: int) -> None:
    async def fn(row: dict[str, Any]) -> Any:
        answers, waits, fails = calls[row["v"]]
        for _ in range(waits):
            await asyncio.sleep(0)
        if fails:
            raise ValueError
        return [{"w": row["v"]} for _ in range(answers)]

    result = summed(fn, rows(*((1, "a", i) for i in range(len(calls)))), capacity=capacity)
    expected = [i for i, (answers, _, fails) in enumerate(calls) if not fails for _ in range(answers)]
    observed = result.panes["w"].to_list()
    assert (observed[0] if observed else []) == expected
    assert sorted(result.dead["v"]) == [i for i, (_, _, fails) in enumerate(calls) if fails]


# Watermarks


def test_rows_that_fail_or_are_dropped_still_move_the_watermark() -> None:
    async def nothing(row: dict[str, Any]) -> None:
        if row["v"] == 0:
            raise ValueError

    result = summed(nothing, rows((5, "a", 1), (7, "a", 0)))
    assert result.steps[0].watermark_us == 7 * S


def test_a_row_that_fails_leaves_no_gap_in_its_sequence() -> None:
    stream = ev.stream(time="t", key="k", watermark=ev.ascending(sequence="v"))
    result = summed(odd_only, rows((1, "a", 1), (2, "a", 2), (3, "a", 3)), stream=stream)
    assert result.steps[0].watermark_us == 3 * S


def test_rows_behind_the_watermark_are_late_with_what_their_calls_gave() -> None:
    mapped = STREAM.map_async(double, output=DOUBLED)
    pipeline = mapped.window(ev.tumbling("1s")).agg(n=ev.count())
    result = pipeline.local([rows((5, "a", 1)), rows((1, "a", 7))], clock=[0, 1])
    assert result.late.select("v", "w").rows() == [(7, 14)]


# Several inputs, processors, restarts


def test_one_of_several_inputs_can_be_asked_about() -> None:
    async def located(row: dict[str, Any]) -> dict[str, Any]:
        if row["v"] == 0:
            raise KeyError("v")
        return {"city": "kiel"}

    left = STREAM.map_async(located, output={"city": pl.String}, retries=0)
    joined = ev.window_join(left, STREAM, window=ev.tumbling("1m"))
    bundle = {"left": rows((1, "a", 1), (2, "b", 0)), "right": rows((3, "a", 2))}
    result = joined.local(bundle, clock=[0])
    assert result.panes.select("k", "city", "v", "v_right").rows() == [("a", "kiel", 1, 2)]
    assert result.dead.select("k", "ev_input", "ev_reason").rows() == [("b", "left", "failed")]
    assert result.metrics.balanced


def test_an_interval_join_may_ask_about_the_rows_of_a_side() -> None:
    async def located(row: dict[str, Any]) -> dict[str, Any]:
        if row["v"] == 0:
            raise KeyError("v")
        return {"order": row["k"] * 2}

    right = ev.stream(time="t", key="order", watermark=ev.ascending()).map_async(
        located, output={"order": pl.String}, retries=0
    )
    joined = ev.join(STREAM, right, within="10 s")
    bundle = {"left": rows((1, "aa", 1)), "right": rows((2, "a", 7), (3, "a", 0))}
    result = joined.local(bundle, clock=[0])
    assert result.panes.select("k", "v", "v_right").rows() == [("aa", 1, 7)]
    assert result.dead.select("k", "ev_input", "ev_reason").rows() == [(None, "right", "failed")]
    assert result.metrics.balanced and "calls  right: located gives order: String" in joined.explain()


def test_the_inputs_of_a_union_can_be_asked_about_together() -> None:
    both = ev.union(web=STREAM, tills=STREAM).map_async(double, output=DOUBLED)
    pipeline = both.window(ev.global_window()).agg(w=ev.sum("w"))
    result = pipeline.local({"web": rows((1, "a", 1)), "tills": rows((1, "a", 2))}, clock=[0])
    assert result.panes["w"].to_list() == [6]


def test_or_one_of_them_so_that_all_are_alike() -> None:
    ready = ev.stream(time="t", key="k", watermark=ev.ascending())
    both = ev.union(asked=STREAM.map_async(double, output=DOUBLED), ready=ready)
    pipeline = both.window(ev.global_window()).agg(w=ev.sum("w"))
    schemas = SCHEMA, {**SCHEMA, "w": pl.Int64()}
    assert [operator_of(pipeline.plan, *schemas).reads(edge) for edge in (0, 1)] == [set(schema) for schema in schemas]
    bundle = {"asked": rows((1, "a", 1)), "ready": rows((1, "a", 2)).with_columns(w=pl.lit(5, pl.Int64))}
    assert pipeline.local(bundle, clock=[0]).panes["w"].to_list() == [7]


def test_a_query_continues_where_it_was_saved() -> None:
    pipeline = STREAM.map_async(double, output=DOUBLED).window(ev.global_window()).agg(w=ev.sum("w"))
    query = pipeline.start_local()
    query.push(rows((1, "a", 1)), now=0)
    later = pipeline.start_local(saved=query.save())
    later.push(rows((2, "a", 2)), now=1)
    assert later.drain().panes["w"].to_list() == [6]


def test_a_state_does_not_follow_when_calls_are_added_or_removed() -> None:
    window = ev.global_window()
    plain = STREAM.window(window).agg(n=ev.count())
    asking = STREAM.map_async(double, output=DOUBLED).window(window).agg(n=ev.count())
    with pytest.raises(ev.PlanError, match=r"saved without \.map_async, and this plan has it"):
        asking.start_local(saved=plain.start_local(SCHEMA).save())
    with pytest.raises(ev.PlanError, match=r"saved with \.map_async, and this plan has none"):
        plain.start_local(saved=asking.start_local(SCHEMA).save())


def test_the_head_of_a_state_in_pages_is_not_the_state() -> None:
    plan = STREAM.map_async(double, output=DOUBLED).window(ev.global_window()).agg(n=ev.count()).plan
    operator = operator_of(plan, SCHEMA)
    head, _ = operator.write(operator.initial(), Store(), None)
    with pytest.raises(ev.DataError, match="header of a state in pages"):
        loaded(plan, head)


def test_state_in_pages_is_that_of_the_operator_behind_the_calls() -> None:
    pipeline = STREAM.map_async(double, output=DOUBLED).process(AsTheyCome(), output=DOUBLED)
    operator = operator_of(pipeline.plan, SCHEMA)
    paged = Paged(operator)  # type: ignore[arg-type]
    for i in range(3):
        output = paged.step(lambda state, i=i: operator.step(state, Bundle(rows((i, "a", i)), i)))
        assert output.panes["w"].to_list() == [2 * i]
        paged.restart()


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(0, 90), st.integers(0, 5)), max_size=6), max_size=6), st.integers(1, 3))
def test_rows_in_tasks_and_keys_in_buckets_make_no_difference_and_each_row_is_asked_about_once(
    bundles: list[list[tuple[int, int]]], buckets: int
) -> None:
    asked = []

    async def located(row: dict[str, Any]) -> Any:
        asked.append(row)
        if row["v"] == 0:
            raise ValueError
        return [{"shop": f"s{i}"} for i in range(row["v"])]

    stream = ev.stream(time="t", key="shop", watermark=ev.ascending())
    mapped = stream.map_async(located, output={"shop": pl.String}, retries=0)
    plan = mapped.window(ev.tumbling("30 s")).agg(n=ev.count()).plan
    operator = operator_of(plan, SCHEMA)
    whole, states = operator.initial(), [operator.initial()] * buckets
    for now, bundle in enumerate(bundles):
        frame = rows(*((t, "a", v) for t, v in bundle))
        step = operator.step(whole, Bundle(frame, now))
        whole = step.state
        asked.clear()
        tasks = [operator.stamp(part, now, MIN) for part in (frame[:2], frame[2:])]
        parts = [split_stamp(stamp, plan.key, buckets, home=0) for stamp in tasks]
        steps = []
        for bucket, state in enumerate(states):
            stamps = [page.stamp_from_bytes(page.stamp_to_bytes(part[bucket])) for part in parts]
            steps.append(operator.apply(state, stamps, now))
        states = [step.state for step in steps]
        assert len(asked) == len(bundle)
        for name in ("panes", "late", "dead"):
            observed = pl.concat([getattr(step.output, name) for step in steps])
            by = ["shop", "t"] if name != "panes" else ["shop", "window_start"]
            assert observed.sort(by, nulls_last=True).equals(getattr(step.output, name).sort(by, nulls_last=True))
        assert sum((step.output.counts for step in steps), Counts()) == step.output.counts


def loops_of(bundles: int) -> set[int]:
    """The loops that calls of several bundles run on."""
    seen = []

    async def look(row: dict[str, Any]) -> dict[str, Any]:
        seen.append(asyncio.get_running_loop())
        return {"w": 1}

    result = summed(look, *(rows((i, "a", 1)) for i in range(bundles)))
    assert result.panes["n"].to_list() == [bundles]
    return set(map(id, seen))


def test_all_bundles_share_a_loop_so_that_clients_stay_connected() -> None:
    assert len(loops_of(3)) == 1


def test_calls_can_be_made_where_a_loop_runs_already() -> None:
    async def notebook() -> set[int]:
        return loops_of(2) | loops_of(2)

    assert len(asyncio.run(notebook())) == 1


def test_explain_tells_of_the_calls() -> None:
    explained = STREAM.map_async(double, output=DOUBLED).window(ev.global_window()).agg(w=ev.sum("w")).explain()
    assert "calls  double gives w: Int64; 100 calls at a time, in order; runs Python for each row" in explained
