"""Mistakes that newcomers make, and the answer to each."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pandas as pd
import polars as pl
import pytest

import eventide as ev
from eventide.hints import FAMILIAR

STREAM = ev.stream("ts", key="shop", watermark="30 seconds")
MINUTES = STREAM.window(ev.tumbling("1 minute"))
COUNTS = MINUTES.agg(n=ev.count())
MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "an aggregate that is not called": (lambda: MINUTES.agg(n=ev.count), r"Call it: n=ev.count\(\)"),
    "an aggregate of a column that is not called": (lambda: MINUTES.agg(n=ev.sum), r"Call it: n=ev.sum\(column\)"),
    "an aggregate by name": (lambda: MINUTES.agg(n="count"), r"Write n=ev.count\(\)"),
    "a column instead of an aggregate": (lambda: MINUTES.agg(n="price"), r"n=ev.sum\('price'\)"),
    "a step longer than its window": (lambda: ev.cumulate("1 day", "6 hours"), r"Swap them: ev.cumulate\('6h', '1d'\)"),
    "a pandas frame": (lambda: COUNTS.local(pd.DataFrame({"ts": []})), r"not a pandas DataFrame.*from_pandas"),
    "a lazy frame": (lambda: COUNTS.local(pl.LazyFrame({"ts": []})), r"rows.collect\(\)"),
    "a dict of columns": (lambda: COUNTS.local({"ts": ["2026-03-01"]}), r"polars.DataFrame\(rows\)"),
    "a pipeline as an input": (lambda: ev.join(COUNTS, STREAM, within=("0s", "1m")), "a value of type Pipeline"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_an_answer(mistake: str) -> None:
    make, answer = MISTAKES[mistake]
    with pytest.raises(ev.PlanError, match=answer):
        make()


@pytest.mark.parametrize(
    ("owner", "name", "answer"),
    [
        (ev, "avg", "ev.mean"),
        (ev, "hopping", "ev.sliding"),
        (ev, "tumble", "ev.tumbling"),
        (ev, "tumblng", "Did you mean: 'tumbling'"),
        (STREAM, "local", r"\.agg\("),
        (STREAM, "allowed_lateness", r"\.emit\(allowed_lateness="),
        (STREAM, "windw", "Did you mean: 'window'"),
        (COUNTS, "transform", r"events.transform\(pipeline\)"),
        (COUNTS, "explian", "Did you mean: 'explain'"),
    ],
)
def test_a_name_from_elsewhere_gets_a_hint(owner: Any, name: str, answer: str) -> None:
    with pytest.raises(AttributeError, match=answer):
        getattr(owner, name)


@pytest.mark.parametrize("owner", FAMILIAR)
def test_no_hint_is_for_a_name_that_exists(owner: str) -> None:
    existing = ev.__all__ if owner == "eventide" else dir(getattr(ev, owner))
    assert not set(FAMILIAR[owner]) & set(existing)


def test_values_with_hints_are_still_copied_and_compared() -> None:
    assert deepcopy(COUNTS).plan == COUNTS.plan and not hasattr(COUNTS, "__array__") and hasattr(STREAM, "window")
