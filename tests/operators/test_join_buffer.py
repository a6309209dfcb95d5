"""How rows of a join are found: what is looked at follows what may match, not how much of a key is stored."""

from __future__ import annotations

from datetime import timedelta

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eventide as ev
from eventide import _columns as c
from eventide.operators.join_buffer import JoinSide
from eventide.plan.join_plan import LEFT, RIGHT
from eventide.state.pane_table import EMPTY_TABLE, HASH

SCHEMA = {"k": pl.String(), "t": pl.Int64()}


def sides(lo: int, hi: int) -> tuple[JoinSide, JoinSide]:
    stream = ev.stream(time="t", key="k")
    bounds = timedelta(microseconds=lo), timedelta(microseconds=hi)
    plan = ev.join(stream, stream, within=bounds).plan
    return JoinSide(plan, LEFT, {"t": "t"}, SCHEMA), JoinSide(plan, RIGHT, {"t": "t_right"}, SCHEMA)


def messages(side: JoinSide, times: list[int]) -> pl.DataFrame:
    rows = pl.DataFrame({"k": ["a"] * len(times), "t": times}, schema=SCHEMA)
    return side.to_store(side.read(rows.with_columns(pl.col("t").alias(c.TIME))), 0)


@pytest.mark.parametrize(("lo", "hi"), [(0, 0), (0, 10), (-7, 3), (100, 110)])
def test_of_a_long_history_only_what_is_near_is_looked_at(lo: int, hi: int) -> None:
    left, right = sides(lo, hi)
    table = EMPTY_TABLE.put(messages(left, list(range(10_000))))
    probes = right.probes(messages(right, [5_000]))
    looked_at = sum(len(hits.rows) for hits in table.probe(probes[HASH].to_numpy()))
    assert hi - lo + 1 <= looked_at <= 2 * max(1, hi - lo)


@given(st.integers(-20, 20), st.integers(0, 9), st.integers(-50, 50), st.integers(0, 9))
def test_a_probe_finds_the_slice_of_every_partner(lo: int, width: int, left_time: int, more: int) -> None:
    left, right = sides(lo, lo + width)
    apart = lo + min(more, width)
    for ours, theirs, time, other in (
        (left, right, left_time, left_time + apart),
        (right, left, left_time + apart, left_time),
    ):
        stored = messages(theirs, [other])
        probes = ours.probes(messages(ours, [time]))
        assert stored[c.SLICE][0] in probes[c.SLICE].to_list()
        assert stored[HASH][0] in probes[HASH].to_list()
