"""How rows of a join are found: what is looked at follows what may match, not how much of a key is kept."""

from __future__ import annotations

from datetime import timedelta

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eventide as ev
from eventide.operators import columns as c
from eventide.operators.messages import Messages
from eventide.plan.join_plan import LEFT, RIGHT
from eventide.state.panes import EMPTY, HASH

SCHEMA = {"k": pl.String(), "t": pl.Int64()}


def sides(lo: int, hi: int) -> tuple[Messages, Messages]:
    stream = ev.stream(time="t", key="k")
    bounds = timedelta(microseconds=lo), timedelta(microseconds=hi)
    plan = ev.join(stream, stream, within=bounds).plan
    return Messages(plan, LEFT, {"t": "t"}, SCHEMA), Messages(plan, RIGHT, {"t": "t_right"}, SCHEMA)


def messages(side: Messages, times: list[int]) -> pl.DataFrame:
    rows = pl.DataFrame({"k": ["a"] * len(times), "t": times}, schema=SCHEMA)
    return side.to_keep(side.read(rows.with_columns(pl.col("t").alias(c.TIME))), 0)


@pytest.mark.parametrize(("lo", "hi"), [(0, 0), (0, 10), (-7, 3), (100, 110)])
def test_of_a_long_history_only_what_is_near_is_looked_at(lo: int, hi: int) -> None:
    left, right = sides(lo, hi)
    table = EMPTY.put(messages(left, list(range(10_000))))
    questions = right.questions(messages(right, [5_000]))
    looked_at = sum(len(found.rows) for found in table.probe(questions[HASH].to_numpy()))
    assert hi - lo + 1 <= looked_at <= 2 * max(1, hi - lo)


@given(st.integers(-20, 20), st.integers(0, 9), st.integers(-50, 50), st.integers(0, 9))
def test_a_question_finds_the_slice_of_every_partner(lo: int, width: int, left_time: int, more: int) -> None:
    left, right = sides(lo, lo + width)
    apart = lo + min(more, width)
    for ours, theirs, own, other in (
        (left, right, left_time, left_time + apart),
        (right, left, left_time + apart, left_time),
    ):
        kept = messages(theirs, [other])
        questions = ours.questions(messages(ours, [own]))
        assert kept[c.SLICE][0] in questions[c.SLICE].to_list()
        assert kept[HASH][0] in questions[HASH].to_list()
