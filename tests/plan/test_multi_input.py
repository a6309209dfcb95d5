"""Several inputs that do not fit together are rejected when the plan is built, or bound to their columns."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

import eventide as ev

LEFT = ev.stream(time="t", key="id")
RIGHT = ev.stream(time="t", key="id")
TWO = ev.stream(time="t", key=["id", "shop"])
MINUTE = ev.tumbling("1 minute")
EARLY = ev.after_watermark(early=ev.on_update())

REJECTIONS: list[tuple[Callable[[], Any], str]] = [
    (lambda: ev.union(LEFT), "union of 1 input(s): it takes two or more streams"),
    (lambda: ev.union(LEFT, TWO), "one input has the key ['id'], another ['id', 'shop']"),
    (lambda: ev.union(LEFT, RIGHT.window(MINUTE)), "input 2 has windows already"),
    (lambda: ev.union(LEFT, "orders"), "input 2 is 'orders', not a stream"),  # type: ignore[arg-type]
    (lambda: ev.union(LEFT, ev.union(LEFT, RIGHT)), "input 2 has several inputs itself"),
    (lambda: ev.window_join(LEFT, TWO, window=MINUTE), "or name the columns with on="),
    (lambda: ev.window_join(LEFT, RIGHT, window=MINUTE, on=5), "window_join: on=5 is not a column name"),  # type: ignore[arg-type]
    (lambda: ev.window_join(LEFT, RIGHT, window=MINUTE, how="outer"), "how='outer' is not known"),  # type: ignore[arg-type]
    (lambda: ev.window_join(LEFT, RIGHT, window=MINUTE, mode="all"), "mode='all' is not known"),  # type: ignore[arg-type]
    (
        lambda: ev.window_join(LEFT, RIGHT, window=MINUTE, how="left", trigger=EARLY, mode="discarding"),
        "could not be retracted when its partner arrives",
    ),
    (lambda: ev.window_join(LEFT, RIGHT, window=ev.rows(3)), "rows of different streams have no common numbers"),
    (lambda: ev.window_join(LEFT, RIGHT, window=ev.inherit()), "needs a column that not all sides have"),
    (
        lambda: ev.window_join(ev.stream(time="t"), ev.stream(time="t"), window=MINUTE),
        "window_join: the streams have no key to join by",
    ),
    (lambda: ev.union(LEFT, RIGHT, input_0=RIGHT), "'input_0' is the default name of an unnamed input"),
    (
        lambda: ev.window_join(LEFT.window(MINUTE).emit(mode="retracting"), RIGHT, window=MINUTE),  # type: ignore[arg-type]
        "windows, emission and limits are set on the result",
    ),
    (
        lambda: ev.window_join(LEFT, RIGHT, window=MINUTE, early="10 seconds", trigger=EARLY),
        "window_join(): trigger= replaces early= and late=",
    ),
    (lambda: ev.cogroup({"a": LEFT, "b": RIGHT}, window=MINUTE, late="10 seconds"), "no row may be late"),
    (lambda: ev.window_join(LEFT, RIGHT, window="1 minute"), "such as ev.tumbling('1 minute')"),  # type: ignore[arg-type]
    (
        lambda: ev.window_join(LEFT, RIGHT, window=MINUTE, on="pane_index"),
        "'pane_index' is a column that every row of the output has",
    ),
    (lambda: ev.cogroup({"ev_input": LEFT, "b": RIGHT}, window=MINUTE), "an input cannot be called 'ev_input'"),
    (
        lambda: ev.window_join(LEFT, RIGHT, window=ev.sessions("1m"), trigger=EARLY, mode="discarding"),
        "a session that grows would emit its pairs again",
    ),
    (lambda: ev.join(LEFT, RIGHT, within="1m", on="diff"), "join: 'diff' is a column that every row"),
    (lambda: ev.join(LEFT, RIGHT, last=2, keep={"left": "1h", "right": "1h"}), "rows of the right stream are stored"),
    (lambda: ev.cogroup({"id": LEFT, "b": RIGHT}, window=MINUTE), "the key column 'id' has the name of an input"),
    (lambda: ev.cogroup({"a": LEFT}, window=MINUTE), "cogroup of 1 input(s)"),
    (lambda: ev.cogroup({"a": LEFT, "b": RIGHT, "c": RIGHT}, window=MINUTE, on={"id": "id"}), "on={'id': 'id'}"),
]


@pytest.mark.parametrize(("make", "message"), REJECTIONS, ids=[message for _, message in REJECTIONS])
def test_inputs_that_do_not_fit_are_rejected(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ev.PlanError, match=re.escape(message)):
        make()


BOUND: list[tuple[ev.Pipeline, dict[str, dict[str, pl.DataType]], str]] = [
    (
        ev.window_join(LEFT, RIGHT, window=MINUTE),
        {"left": {"t": pl.Int64(), "id": pl.Int64()}, "right": {"t": pl.Int64(), "id": pl.String()}},
        "the key 'id' of 'left' is Int64, but 'id' of 'right' is String",
    ),
    (
        ev.window_join(LEFT, RIGHT, window=MINUTE),
        {
            "left": {"t": pl.Int64(), "id": pl.Int64(), "pane_index": pl.Int64()},
            "right": {"t": pl.Int64(), "id": pl.Int64()},
        },
        "the rows of 'left' have columns that every joined row has: 'pane_index'",
    ),
    (
        ev.union(a=LEFT, b=RIGHT).window(MINUTE).agg(n=ev.count()),
        {"a": {"t": pl.Int64(), "id": pl.Int64()}, "b": {"t": pl.Int64(), "id": pl.String()}},
        "union: input 'b' has String for column 'id', the first input has Int64",
    ),
]


@pytest.mark.parametrize(("pipeline", "schemas", "message"), BOUND, ids=[message for _, _, message in BOUND])
def test_columns_that_do_not_fit_are_rejected(
    pipeline: ev.Pipeline, schemas: dict[str, dict[str, pl.DataType]], message: str
) -> None:
    with pytest.raises(ev.PlanError, match=re.escape(message)):
        pipeline.start_local(schemas)


def test_rows_are_given_by_the_names_of_inputs() -> None:
    pipeline = ev.window_join(LEFT, RIGHT, window=MINUTE)
    rows = pl.DataFrame({"t": [1], "id": [1]})
    with pytest.raises(ev.PlanError, match="This pipeline has several inputs"):
        pipeline.local(rows)
    with pytest.raises(ev.PlanError, match=r"inputs \['left', 'right'\], but rows were given for \['left', 'other'\]"):
        pipeline.local({"left": rows, "other": rows})
    with pytest.raises(ev.PlanError, match="The inputs have 2, 1 bundles"):
        pipeline.local({"left": [rows, rows], "right": [rows]})


def test_a_union_says_which_watermark_key_stalls() -> None:
    other = ev.stream(time="t", key="id", watermark=ev.bounded_delay("1 second", watermark_key=7))
    observed = ev.union(a=LEFT, b=other).window(MINUTE).agg(n=ev.count()).explain()
    assert "event time follows watermark key 0, which 'b' does not have: it stalls while 'b' is active" in observed


def test_a_condition_that_looks_at_several_pairs_is_rejected() -> None:
    join = ev.join(LEFT, RIGHT, within="1 minute", where=pl.col("t") == pl.col("t").max())
    schema = {"t": pl.Int64(), "id": pl.Int64()}
    with pytest.raises(ev.PlanError, match="looks at several pairs at once"):
        join.start_local({"left": schema, "right": schema})


def test_the_state_of_another_condition_or_mode_is_rejected() -> None:
    schema = {"t": pl.Int64(), "id": pl.Int64()}
    joins = [ev.join(LEFT, RIGHT, within="1m", where=pl.col("t").is_in(list(range(n)))) for n in (100, 101)]
    modes = [ev.window_join(LEFT, RIGHT, window=MINUTE, trigger=EARLY, mode=m) for m in ("accumulating", "retracting")]
    for first, other in (joins, modes):
        saved = first.start_local({"left": schema, "right": schema}).save()
        with pytest.raises(ev.EventideError, match=r"where|mode"):
            other.start_local(saved=saved)


PLAIN = ev.stream(time="t", key="id", watermark=ev.ascending())
AT = pl.DataFrame({"t": [10], "id": [1]})


def at(time: int) -> pl.DataFrame:
    return AT.with_columns(t=pl.lit(time, pl.Int64))


def united(**inputs: ev.Stream) -> ev.local.LocalQuery:
    pipeline = ev.union(**(inputs or {"a": PLAIN, "b": PLAIN})).window(ev.tumbling("1 minute")).agg(n=ev.count())
    return pipeline.start_local(dict.fromkeys(inputs or ("a", "b"), AT.schema))


def test_an_input_without_origins_is_retired_under_the_name_that_metrics_give_it() -> None:
    query = united()
    assert query.push({"a": at(50), "b": at(10)}, now=0).watermark_us == 10
    assert query.result.metrics.least_origin == "b"
    assert query.retire("b")
    assert not query.retire("b"), "it is not waited for any more"
    assert query.push(now=1).watermark_us == 50
    assert query.push({"a": at(90), "b": at(60)}, now=2).watermark_us == 60, "it takes part again with its next row"


def test_an_input_that_never_sent_a_row_can_be_retired() -> None:
    query = united(a=PLAIN, b=ev.stream(time="t", key="id", watermark=ev.ascending(origin="id")))
    query.push({"a": at(50)}, now=0)
    assert query.result.metrics.least_origin == "b"
    assert query.retire("b")
    assert query.push(now=1).watermark_us == 50


def test_a_retired_input_stays_retired_after_a_restart() -> None:
    query = united()
    query.push({"a": at(50), "b": at(10)}, now=0)
    query.retire("b")
    pipeline = ev.union(a=PLAIN, b=PLAIN).window(ev.tumbling("1 minute")).agg(n=ev.count())
    assert pipeline.start_local(saved=query.save()).push(now=1).watermark_us == 50


def test_an_idle_input_without_origins_is_listed_as_idle() -> None:
    query = united(a=PLAIN, b=ev.stream(time="t", key="id", watermark=ev.ascending(idle_timeout="1 second")))
    query.push({"a": at(50), "b": at(10)}, now=0)
    query.push({"a": at(60)}, now=2_000_000)
    assert query.result.metrics.idle_origins == ("b",)


@pytest.mark.parametrize("key", ["right", 1])
def test_the_watermark_of_the_second_input_can_be_set(key: int | str) -> None:
    second = ev.stream(time="t", key="id", watermark=ev.ascending(watermark_key=1))
    query = ev.join(PLAIN, second, within="10 seconds", how="left").start_local({"left": AT.schema, "right": AT.schema})
    query.push({"left": at(10)}, now=0)
    step = query.push(now=1, watermark=30_000_000, key=key)
    assert step.panes.height == 1, "no partner can arrive any more"
    assert step.promises == {0: 10, 1: 10 - 10_000_000}


def test_the_watermark_of_one_input_does_not_raise_the_others() -> None:
    query = united()
    query.push({"a": at(50), "b": at(10)}, now=0)
    assert query.push(now=1, watermark=40, key="b").watermark_us == 40
    assert query.push(now=2, watermark=90, key="b").watermark_us == 50


def test_a_watermark_for_an_unknown_input_or_key_is_rejected() -> None:
    query = united()
    with pytest.raises(ev.PlanError, match=r"there is no input 'c'. There are: 'a', 'b'"):
        query.push(now=0, watermark=40, key="c")
    with pytest.raises(ev.PlanError, match=r"no input of this pipeline has watermark key 7. Known keys: 0\."):
        query.push(now=0, watermark=40, key=7)


def test_an_input_that_has_ended_is_not_waited_for_and_may_not_return() -> None:
    query = united()
    assert query.push({"a": at(50), "b": at(10)}, now=0).watermark_us == 10
    assert query.end("b").watermark_us == 50
    assert query.push({"a": at(70)}, now=1).watermark_us == 70
    with pytest.raises(ev.DataError, match="arrived on b after it was done"):
        query.push({"b": at(80)}, now=2)


def test_an_input_stays_ended_after_a_restart_and_the_last_end_drains() -> None:
    query = united()
    query.push({"a": at(50), "b": at(10)}, now=0)
    query.end("b")
    pipeline = ev.union(a=PLAIN, b=PLAIN).window(ev.tumbling("1 minute")).agg(n=ev.count())
    later = pipeline.start_local(saved=query.save())
    assert later.push({"a": at(60)}, now=1).watermark_us == 60
    step = later.end("a")
    assert step.watermark_us == ev.time.MAX and step.panes["n"].to_list() == [3]


def test_the_end_of_the_only_input_drains() -> None:
    query = PLAIN.window(ev.tumbling("1 minute")).agg(n=ev.count()).start_local()
    query.push(at(10), now=0)
    with pytest.raises(ev.PlanError, match="has one input, which has no name"):
        query.end("a")
    assert query.end().panes["n"].to_list() == [1]


def test_the_end_must_name_one_of_several_inputs() -> None:
    with pytest.raises(ev.PlanError, match=r"has the inputs \['a', 'b'\]. Name the one"):
        united().end()


@pytest.mark.parametrize("key", [0, 1])
def test_the_end_of_one_side_of_a_join_leaves_the_other_running(key: int) -> None:
    right = ev.stream(time="t", key="id", watermark=ev.ascending(watermark_key=key))
    query = ev.join(PLAIN, right, within="10 seconds", how="full").start_local({"left": AT.schema, "right": AT.schema})
    query.push({"left": at(10), "right": at(1)}, now=0)
    query.end("left")
    step = query.push({"right": at(30_000_000)}, now=1)
    assert step.late.height == 0 and step.watermark_us < ev.time.MAX
    assert step.panes.height == 1, "a row that can find no partner is padded at once"
    assert query.end("right").watermark_us == ev.time.MAX


def test_an_origin_is_retired_under_the_name_that_metrics_give_it() -> None:
    by_origin = ev.stream(time="t", key="id", watermark=ev.ascending(origin="o"))
    rows = pl.DataFrame({"t": [10, 50], "id": [1, 1], "o": ["0", "1"]})
    query = ev.window_join(by_origin, by_origin, window=MINUTE).start_local({"left": rows.schema, "right": rows.schema})
    query.push({"left": rows, "right": rows}, now=0)
    assert query.result.metrics.least_origin == "left: 0"
    assert query.retire("left: 0")
    query.push({}, now=1)
    assert query.result.metrics.least_origin == "right: 0", "the other side's origin of that name is waited for"
    assert not query.retire("left: 9")
