"""Several inputs that do not fit together are refused when the plan is built, or bound to their columns."""

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
EARLY = ev.after_watermark(early=ev.each())

REFUSALS: list[tuple[Callable[[], Any], str]] = [
    (lambda: ev.union(LEFT), "union of 1 input(s) has nothing to unite"),
    (lambda: ev.union(LEFT, TWO), "one input has the key ['id'], another ['id', 'shop']"),
    (lambda: ev.union(LEFT, RIGHT.window(MINUTE)), "the input 'input_1' already has windows or inputs"),
    (lambda: ev.union(LEFT, "orders"), "the input 'input_1' is 'orders', and not a stream"),  # type: ignore[arg-type]
    (lambda: ev.union(LEFT.retain(rows=5), RIGHT), "say .retain(…) after ev.union(…)"),
    (
        lambda: ev.process({"a": LEFT.retain(rows=5), "b": RIGHT}, ev.Processor(), output={"x": pl.Int64}),
        "process: .retain(…)",
    ),
    (lambda: ev.window_join(LEFT, TWO, window=MINUTE), "or name the columns with on="),
    (lambda: ev.window_join(LEFT, RIGHT, window=MINUTE, on=5), "window_join: on=5 is not a column name"),  # type: ignore[arg-type]
    (lambda: ev.window_join(LEFT, RIGHT, window=MINUTE, how="outer"), "how='outer' is not known"),  # type: ignore[arg-type]
    (lambda: ev.window_join(LEFT, RIGHT, window=MINUTE, trigger=EARLY), "say how the panes of a window relate"),
    (lambda: ev.window_join(LEFT, RIGHT, window=MINUTE, mode="all"), "mode='all' is not known"),  # type: ignore[arg-type]
    (
        lambda: ev.window_join(LEFT, RIGHT, window=MINUTE, how="left", trigger=EARLY, mode="discarding"),
        "could not be taken back when its partner comes",
    ),
    (lambda: ev.window_join(LEFT, RIGHT, window=ev.rows(3)), "rows of different streams have no common numbers"),
    (lambda: ev.window_join(LEFT, RIGHT, window=ev.inherit()), "needs a column that not all sides have"),
    (
        lambda: ev.window_join(ev.stream(time="t"), ev.stream(time="t"), window=MINUTE),
        "window_join: there is nothing that must be equal",
    ),
    (lambda: ev.union(LEFT.lateness("1 hour"), RIGHT), "say .lateness() after ev.union(…)"),
    (lambda: ev.union(LEFT, RIGHT, input_0=RIGHT), "'input_0' is the name of an input that was given by its place"),
    (
        lambda: ev.window_join(LEFT.retracting(), RIGHT, window=MINUTE),
        ".retracting() of the input 'left' has",
    ),
    (lambda: ev.window_join(LEFT, RIGHT, window="1 minute"), "such as ev.tumbling('1 minute')"),  # type: ignore[arg-type]
    (
        lambda: ev.window_join(LEFT, RIGHT, window=MINUTE, on="pane"),
        "'pane' is a column that every row of the output has",
    ),
    (lambda: ev.cogroup({"side": LEFT, "b": RIGHT}, window=MINUTE), "an input cannot be called 'side'"),
    (
        lambda: ev.window_join(LEFT, RIGHT, window=ev.sessions("1m"), trigger=EARLY, mode="discarding"),
        "a session that grows would tell its pairs again",
    ),
    (lambda: ev.join(LEFT, RIGHT, within="1m", on="diff"), "join: 'diff' is a column that every row"),
    (lambda: ev.join(LEFT, RIGHT.trigger(EARLY), within="1m"), "a join tells each pair once"),
    (
        lambda: ev.join(LEFT.retain(time="1h", rows=5), RIGHT, within=("0s", None)),
        ".retain(rows=…) and .retain(bytes=…) of the left stream are not kept to by joins",
    ),
    (
        lambda: ev.join(LEFT.retain(time="1h"), RIGHT.retain(time="1h"), over=ev.rows(2)),
        "the right stream keeps its last n rows of each key",
    ),
    (lambda: ev.cogroup({"id": LEFT, "b": RIGHT}, window=MINUTE), "the key column 'id' has the name of an input"),
    (lambda: ev.cogroup({"a": LEFT}, window=MINUTE), "union of 1 input(s)"),
    (lambda: ev.cogroup({"a": LEFT, "b": RIGHT, "c": RIGHT}, window=MINUTE, on={"id": "id"}), "on={'id': 'id'}"),
]


@pytest.mark.parametrize(("make", "message"), REFUSALS, ids=[message for _, message in REFUSALS])
def test_inputs_that_do_not_fit_are_refused(make: Callable[[], Any], message: str) -> None:
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
        {"left": {"t": pl.Int64(), "id": pl.Int64(), "pane": pl.Int64()}, "right": {"t": pl.Int64(), "id": pl.Int64()}},
        "two columns 'pane', or one with a name of Eventide's own",
    ),
    (
        ev.union(a=LEFT, b=RIGHT).window(MINUTE).agg(n=ev.count()),
        {"a": {"t": pl.Int64(), "id": pl.Int64()}, "b": {"t": pl.Int64(), "id": pl.String()}},
        "union: input 'b' has String for column 'id', the first input has Int64",
    ),
]


@pytest.mark.parametrize(("pipeline", "schemas", "message"), BOUND, ids=[message for _, _, message in BOUND])
def test_columns_that_do_not_fit_are_refused(
    pipeline: ev.Pipeline, schemas: dict[str, dict[str, pl.DataType]], message: str
) -> None:
    with pytest.raises(ev.PlanError, match=re.escape(message)):
        pipeline.open(schemas)


def test_rows_are_given_by_the_names_of_inputs() -> None:
    pipeline = ev.window_join(LEFT, RIGHT, window=MINUTE)
    rows = pl.DataFrame({"t": [1], "id": [1]})
    with pytest.raises(ev.PlanError, match="this pipeline has several inputs"):
        pipeline.local(rows)
    with pytest.raises(ev.PlanError, match=r"inputs \['left', 'right'\], but rows were given for \['left', 'other'\]"):
        pipeline.local({"left": rows, "other": rows})
    with pytest.raises(ev.PlanError, match="the inputs have 2, 1 bundles"):
        pipeline.local({"left": [rows, rows], "right": [rows]})


def test_a_union_says_which_watermark_key_stands_still() -> None:
    other = ev.stream(time="t", key="id", watermark=ev.lag("1 second", watermark_key=7))
    told = ev.union(a=LEFT, b=other).window(MINUTE).agg(n=ev.count()).explain()
    assert "time goes by watermark key 0, which 'b' does not have: it stands still while 'b' is active" in told


def test_a_condition_that_looks_at_several_pairs_is_refused() -> None:
    join = ev.join(LEFT, RIGHT, within="1 minute", where=pl.col("t") == pl.col("t").max())
    schema = {"t": pl.Int64(), "id": pl.Int64()}
    with pytest.raises(ev.PlanError, match="looks at several pairs at once"):
        join.open({"left": schema, "right": schema})


def test_the_state_of_another_condition_or_mode_is_refused() -> None:
    schema = {"t": pl.Int64(), "id": pl.Int64()}
    joins = [ev.join(LEFT, RIGHT, within="1m", where=pl.col("t").is_in(list(range(n)))) for n in (100, 101)]
    modes = [ev.window_join(LEFT, RIGHT, window=MINUTE, trigger=EARLY, mode=m) for m in ("accumulating", "retracting")]  # type: ignore[arg-type]
    for one, other in (joins, modes):
        saved = one.open({"left": schema, "right": schema}).save()
        with pytest.raises(ev.EventideError, match=r"where|mode"):
            other.open(saved=saved)


def test_an_origin_is_retired_under_the_name_that_metrics_give_it() -> None:
    by_origin = ev.stream(time="t", key="id", watermark=ev.ascending(origin="o"))
    rows = pl.DataFrame({"t": [10, 50], "id": [1, 1], "o": ["0", "1"]})
    query = ev.window_join(by_origin, by_origin, window=MINUTE).open({"left": rows.schema, "right": rows.schema})
    query.push({"left": rows, "right": rows}, now=0)
    assert query.result.watermarks is not None
    assert query.result.watermarks.least_origin == "left: 0"
    assert query.retire("left: 0")
    query.push({}, now=1)
    assert query.result.watermarks.least_origin == "right: 0", "the other side's origin of that name is waited for"
    assert not query.retire("left: 9")
