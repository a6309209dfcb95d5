"""Window joins, cogroups and unions, by example."""

from __future__ import annotations

import re
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.panes import PANE, WINDOW

SECOND = 1_000_000


def stream(**options: Any) -> ev.Stream:
    return ev.stream(time="t", key="id", watermark=ev.ascending(**options))


def rows(*pairs: tuple[int, str | None], value: str = "x") -> pl.DataFrame:
    frame = pl.DataFrame(list(pairs), schema={"t": pl.Int64, "id": pl.String}, orient="row")
    return frame.with_columns(pl.col("t") * SECOND, (pl.lit(value) + pl.col("t").cast(pl.String)).alias(value))


def observed(panes: pl.DataFrame) -> list[tuple[Any, ...]]:
    return panes.select("id", "x", "y", "diff").rows()


def test_a_late_row_that_brings_a_partner_takes_back_the_padded_row() -> None:
    join = ev.window_join(
        stream(), stream(), window=ev.tumbling("10 seconds"), how="left", allowed_lateness="1 minute", mode="retracting"
    )
    query = join.start_local({"left": rows().schema, "right": rows(value="y").schema})
    query.push({"left": rows((1, "a"), (2, "b")), "right": rows((3, "b"), value="y")}, now=0)
    step = query.push({"left": rows((20, "c")), "right": rows((20, "c"), value="y")}, now=1)
    assert observed(step.panes) == [("a", "x1", None, 1), ("b", "x2", "y3", 1)]
    step = query.push({"right": rows((4, "a"), value="y")}, now=2)
    assert observed(step.panes) == [("a", "x1", None, -1), ("a", "x1", "y4", 1)]
    assert step.panes["pane_timing"].to_list() == ["ON_TIME", "LATE"]
    assert step.counts.refined == 1


def test_unchanged_pairs_are_not_emitted_again() -> None:
    early = ev.after_watermark(early=ev.on_update(), late=ev.on_update())
    join = ev.window_join(stream(), stream(), window=ev.tumbling("10 seconds"), trigger=early, mode="retracting")
    query = join.start_local({"left": rows().schema, "right": rows(value="y").schema})
    first = query.push({"left": rows((1, "a")), "right": rows((2, "a"), value="y")}, now=0)
    second = query.push({"left": rows((3, "a"))}, now=1)
    assert observed(first.panes) == [("a", "x1", "y2", 1)]
    assert observed(second.panes) == [("a", "x3", "y2", 1)]
    assert query.drain(now=2).panes.is_empty()


def test_pairs_of_a_discarding_join_are_those_that_are_new() -> None:
    early = ev.after_watermark(early=ev.on_update(), late=ev.on_update())
    join = ev.window_join(stream(), stream(), window=ev.tumbling("10 seconds"), trigger=early, mode="discarding")
    query = join.start_local({"left": rows().schema, "right": rows(value="y").schema})
    query.push({"left": rows((1, "a")), "right": rows((2, "a"), value="y")}, now=0)
    step = query.push({"left": rows((3, "a")), "right": rows((4, "a"), value="y")}, now=1)
    assert sorted(observed(step.panes)) == [("a", "x1", "y4", 1), ("a", "x3", "y2", 1), ("a", "x3", "y4", 1)]


def test_a_null_in_a_key_meets_nothing() -> None:
    rows_ = {"left": rows((1, None)), "right": rows((1, None), value="y")}
    join = ev.window_join(stream(), stream(), window=ev.tumbling("10 seconds"))
    assert join.local(rows_).panes.is_empty()
    join = ev.window_join(stream(), stream(), window=ev.tumbling("10 seconds"), how="full")
    assert observed(join.local(rows_).panes) == [(None, "x1", None, 1), (None, None, "y1", 1)]


def test_columns_that_both_have_get_a_suffix_and_keys_may_have_other_names() -> None:
    left, right = rows((1, "a")), rows((2, "a")).rename({"id": "other"})
    by_name = ev.stream(time="t", key="other")
    join = ev.window_join(ev.stream(time="t"), by_name, window=ev.tumbling("10 seconds"), on={"id": "other"})
    panes = join.local({"left": left, "right": right}).panes
    assert panes.columns == ["id", *WINDOW, "t", "x", "t_right", "x_right", *PANE, "diff"]
    other = ev.window_join(
        ev.stream(time="t", key="id"), by_name, window=ev.tumbling("10 seconds"), suffix=" of the other"
    )
    assert other.local({"left": left, "right": right}).panes["x of the other"].to_list() == ["x2"]


def test_a_window_join_waits_for_the_slower_side_unless_it_is_idle() -> None:
    join = ev.window_join(stream(), stream(idle_timeout="1 minute"), window=ev.tumbling("10 seconds"), how="left")
    query = join.start_local({"left": rows().schema, "right": rows(value="y").schema})
    query.push({"left": rows((1, "a")), "right": rows((2, "b"), value="y")}, now=0)
    assert query.push({"left": rows((30, "a"))}, now=SECOND).panes.is_empty()
    assert observed(query.push({"left": rows((31, "a"))}, now=90 * SECOND).panes) == [("a", "x1", None, 1)]


def test_a_cogroup_has_lists_also_of_three_and_of_sessions() -> None:
    groups = ev.cogroup({"one": stream(), "two": stream(), "three": stream()}, window=ev.sessions("5 seconds"))
    panes = groups.local({"one": rows((1, "a"), (4, "a")), "two": rows((8, "a"), value="y"), "three": rows()}).panes
    assert panes["one"].list.eval(pl.element().struct.field("x")).to_list() == [["x1", "x4"]]
    assert panes.select(pl.col("one", "two", "three").list.len()).rows() == [(2, 1, 0)]
    assert panes["window_end"].dt.epoch("s").to_list() == [13]


def test_late_rows_and_dead_letters_say_from_which_side_they_are() -> None:
    join = ev.window_join(stream(), stream(), window=ev.tumbling("10 seconds"))
    bundles = {
        "left": [rows((1, "a"), (60, "a")), rows((2, "late"))],
        "right": [
            rows((60, "a"), value="y"),
            pl.DataFrame({"t": [None], "id": ["b"], "y": ["?"]}, rows(value="y").schema),
        ],
    }
    result = join.local(bundles)
    assert result.late.select("id", "ev_input", pl.col("left").struct.field("x")).rows() == [("late", "left", "x2")]
    assert result.late["right"].to_list() == [None]
    assert result.dead.select("ev_input", pl.col("right").struct.field("y"), "ev_reason").rows() == [
        ("right", "?", "null_time")
    ]
    assert result.metrics.balanced


def test_a_union_is_as_far_as_its_slowest_input_and_keeps_columns_apart() -> None:
    slow = ev.stream(time="t", key="id", watermark=ev.bounded_delay("20 seconds"))
    counts = ev.union(fast=stream(), slow=slow).window(ev.tumbling("10 seconds")).agg(n=ev.count())
    query = counts.start_local({"fast": rows().schema, "slow": rows().select("x", "id", "t").schema})
    step = query.push(
        {"fast": rows((5, "a"), (40, "a")), "slow": rows((5, "a"), (29, "a")).select("x", "id", "t")}, now=0
    )
    assert (step.watermark_us, step.panes.height) == (9 * SECOND, 0)
    step = query.push({"slow": rows((30, "b")).select("x", "id", "t")}, now=1)
    assert step.panes.select("id", "n").rows() == [("a", 2)]


def test_a_union_with_other_watermark_keys_waits_until_they_are_idle() -> None:
    other = ev.stream(time="t", key="id", watermark=ev.ascending(watermark_key=7, idle_timeout="1 minute"))
    counts = ev.union(one=stream(), other=other).window(ev.tumbling("10 seconds")).agg(n=ev.count())
    query = counts.start_local({"one": rows().schema, "other": rows().schema})
    query.push({"one": rows((5, "a"), (40, "a")), "other": rows((50, "a"))}, now=0)
    assert query.push({"one": rows((41, "a"))}, now=30 * SECOND).panes.is_empty()
    assert query.push({"one": rows((42, "a"))}, now=90 * SECOND).panes.select("id", "n").rows() == [("a", 1)]
    assert query.drain(now=91 * SECOND).panes["n"].to_list() == [3, 1]


@pytest.mark.parametrize("kind", ["by window", "by time"])
def test_panes_of_two_pipelines_are_joined_as_the_message_says(kind: str) -> None:
    def joined(time: str) -> ev.Pipeline:
        minutes = ev.stream(time, key="id", watermark="0 seconds")
        if kind == "by time":
            return ev.join(minutes, minutes, within="1 minute")
        return ev.window_join(minutes, minutes, window=ev.tumbling("1 hour"))

    counts = stream().window(ev.tumbling("1 minute")).agg(n=ev.count())
    panes = counts.local(rows((1, "a"), (2, "a"))).panes
    with pytest.raises(ev.PlanError, match="columns that every joined row has") as raised:
        joined("window_time").local({"left": panes, "right": panes})
    message = str(raised.value)
    prepared = eval(re.findall(r"rows\.\S.*?\)(?=\. )", message)[0], {"rows": panes})
    time = "event_time" if "event_time" in prepared.columns else "window_time"
    assert (f"ev.stream(time={time!r}" in message) == (kind == "by window")
    assert "each window once" in message
    pairs = joined(time).local({"left": prepared, "right": prepared}).panes
    assert pairs.select("n", "n_right").rows() == [(2, 2)]
