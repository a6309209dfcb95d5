"""Approximate aggregates: how near they are, and that they are reproducible."""

from __future__ import annotations

import random
import sys

import numpy as np
import polars as pl
import pytest

import eventide.aggregates as ev
from eventide.errors import PlanError

N = 20_000


def states(aggregate: ev.Aggregate, values: list[float], parts: int) -> tuple[str, float]:
    bound = ev.bind({"x": aggregate}, {"v": pl.Float64()}, time="at")
    frames = [pl.DataFrame({"v": part, "at": 0}) for part in np.array_split(np.array(values), parts)]
    merged = bound.merge(pl.concat([bound.start(part, []).cells for part in frames]), [])
    return repr(merged[bound.columns[0]].to_list()), bound.results(merged)["x"].item()


@pytest.mark.parametrize("precision", [8, 12])
def test_distinct_counts_are_as_near_as_documented(precision: int) -> None:
    values = [float(i % (N // 2)) for i in range(N)]
    _, observed = states(ev.approx_distinct("v", precision=precision), values, 7)
    assert abs(observed / (N // 2) - 1) < 3 * 0.7 / 2 ** (precision / 2)


def test_a_distinct_sketch_depends_on_the_set_of_values_only() -> None:
    values = [float(i) for i in range(N)]
    shuffled = random.Random(1).sample(values, N)
    sketches = {states(ev.approx_distinct("v"), v, parts)[0] for v in (values, shuffled) for parts in (1, 2, 9)}
    assert len(sketches) == 1


@pytest.mark.parametrize("accuracy", [0.05, 0.01, 0.002])
@pytest.mark.parametrize("order", ["sorted", "shuffled"])
def test_quantiles_are_as_near_as_documented(accuracy: float, order: str) -> None:
    values = [float(i) for i in range(N)]
    if order == "shuffled":
        random.Random(1).shuffle(values)
    for q in (0.01, 0.25, 0.5, 0.9, 0.99):
        for parts in (1, 11):
            _, observed = states(ev.approx_quantile("v", q, accuracy=accuracy), values, parts)
            assert abs(observed / (q * N) - 1) <= accuracy + 1 / (q * N)


def test_a_quantile_does_not_depend_on_the_order_or_the_division_of_values() -> None:
    values = [float(value) for value in range(-N // 2, N // 2)]
    shuffled = random.Random(1).sample(values, N)
    observed = {states(ev.approx_quantile("v", 0.3), v, parts) for v in (values, shuffled) for parts in (1, 2, 9)}
    assert len(observed) == 1


def test_a_quantile_passes_over_what_is_not_finite() -> None:
    values = [1.0, 2.0, 3.0, float("nan"), float("inf"), float("-inf"), None]
    assert ev.try_out({"v": values}, q=ev.approx_quantile("v", 0.5)) == {"q": 2.0}


def test_empty_texts_and_zeros_are_values_like_any_other() -> None:
    assert ev.try_out({"v": ["", "", None, "x"]}, n=ev.approx_distinct("v")) == {"n": 2}
    assert ev.try_out({"v": [0.0, -0.0, float("nan"), -float("nan")]}, n=ev.approx_distinct("v")) == {"n": 2}


def test_a_missing_package_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(PlanError, match=r"pip install 'pyspark-eventide\[sketches\]'"):
        ev.bind({"x": ev.approx_distinct("v")}, {"v": pl.Int64()}, time="at")
