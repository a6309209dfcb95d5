"""Floats in digits: exact sums, the same for any division, for values of all sizes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eventide.aggregates as ev
from eventide.aggregates import float_digits as digits
from eventide.aggregates.float_digits import DIGITS, SHIFT, SQUARE_DIGITS, WIDTH

EDGES = [0.0, -0.0, 5e-324, 2.0**-22, 2.0**-21, 1024.0, math.nextafter(1024, 0), 2.0**42, 1e300, 0.1, 99.99, 1e-9]
finite = st.one_of(
    st.sampled_from(EDGES + [-edge for edge in EDGES]),
    st.floats(-1e3, 1e3),
    st.floats(allow_nan=False, allow_infinity=False, width=64).filter(lambda v: abs(v) < 1e300),
)
any_float = st.one_of(finite, st.sampled_from([math.inf, -math.inf, math.nan]))
AGGREGATES = {"sum": ev.sum("q"), "mean": ev.mean("q"), "std": ev.std("q"), "var": ev.var("q")}
tried = settings(max_examples=150, deadline=None, derandomize=True, database=None)


def frame(rows: list[tuple[int, float | None]], keys: pl.DataType | None = None) -> pl.DataFrame:
    frame = pl.DataFrame(rows, schema={"key": pl.Int64, "q": pl.Float64}, orient="row").with_columns(at=pl.lit(0))
    return frame if keys is None else frame.with_columns(pl.col("key").cast(keys))


def bytes_of(bound: ev.Bound, cells: pl.DataFrame) -> list[tuple[str, bytes]]:
    observed = bound.results(cells).with_columns(pl.col("key").cast(pl.String)).sort("key")
    numbers = observed.select(pl.col("sum", "mean", "std", "var").fill_null(-1.5)).to_numpy()
    return [(key, row.tobytes()) for key, row in zip(observed["key"], numbers, strict=True)]


@tried
@given(
    st.lists(st.tuples(st.integers(0, 3), st.one_of(any_float, st.none())), min_size=1, max_size=30),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_sums_have_the_same_bytes_for_any_division_and_any_keys(rows, parts, rng) -> None:
    whole = frame(rows)
    bound = ev.bind(AGGREGATES, whole.schema, time="at")
    wanted = bytes_of(bound, bound.start(whole, ["key"]).cells)
    shuffled = rng.sample(rows, len(rows))
    pieces = [bound.start(frame(shuffled[i::parts]), ["key"]).cells for i in range(parts)]
    assert bytes_of(bound, bound.merge(pl.concat(pieces), ["key"])) == wanted
    text = frame(rows, pl.String())
    bound = ev.bind(AGGREGATES, text.schema, time="at")
    assert bytes_of(bound, bound.start(text, ["key"]).cells) == wanted


@tried
@given(st.lists(finite, min_size=1, max_size=30))
def test_a_sum_is_as_near_to_the_exact_sum_as_a_float_can_be(values) -> None:
    summed = Fraction(ev.try_out({"q": values}, total=ev.sum("q"))["total"])
    exact = sum(map(Fraction, values))
    dropped = len(values) * max(map(abs, map(Fraction, values))) / 2**64
    assert abs(summed - exact) <= dropped + Fraction(math.ulp(float(exact)))


@tried
@given(st.lists(finite.filter(lambda v: abs(v) < 1e150), min_size=2, max_size=20))
def test_a_variance_is_exact_up_to_the_last_digits_of_the_largest_square(values) -> None:
    observed = ev.try_out({"q": values}, v=ev.var("q"))["v"]
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    variance = sum((value - mean) ** 2 for value in exact) / (len(exact) - 1)
    most = max(map(abs, exact))
    assert abs(Fraction(observed) - variance) <= variance / 2**48 + len(values) * most**2 / 2**88 + Fraction(5e-324)


@pytest.mark.parametrize("kind", ["prices", "normal", "tiny", "edges"])
def test_the_digits_of_a_value_and_of_its_square_add_up_to_both(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digits, "_BLOCK", 64)
    rng = np.random.default_rng(2)
    values = {
        "prices": np.round(rng.random(300) * 100, 2),
        "normal": rng.standard_normal(300),
        "tiny": rng.standard_normal(300) * 1e-9,
        "edges": np.array([value for value in EDGES if value <= 1024] * 10),
    }[kind]
    observed = [[0] * len(values) for _ in range(DIGITS + SQUARE_DIGITS)]
    for position, rows, whole in digits.cut(values, 0, squares=True):
        for row, number in zip(np.arange(len(values))[rows], whole, strict=True):
            observed[position][row] += int(number)
    unit = Fraction(2) ** -SHIFT
    for row, value in enumerate(map(Fraction, values.tolist())):
        each = [column[row] for column in observed]
        assert max(map(abs, each)) <= 2 ** (WIDTH + 1)
        cut = sum(digit * unit / 2 ** (WIDTH * i) for i, digit in enumerate(each[:DIGITS]))
        assert abs(cut - value) <= unit / 2 ** (2 * WIDTH + 1)
        squared = sum(digit * unit**2 * 2**WIDTH / 2 ** (WIDTH * i) for i, digit in enumerate(each[DIGITS:]))
        assert abs(squared - value**2) <= 4 * unit**2 / 2 ** (3 * WIDTH)


def test_a_group_of_small_values_keeps_its_precision_next_to_a_group_of_large_ones() -> None:
    rows = frame([(0, 1e17), (0, 3.0), (1, 1e-9), (1, 3e-9), (2, 0.0), (3, 7.0), (3, -7.0), (3, 1e-12)])
    bound = ev.bind({"total": ev.sum("q")}, rows.schema, time="at")
    totals = bound.results(bound.start(rows, ["key"]).cells).sort("key")["total"].to_list()
    assert totals[:3] == [1e17, math.fsum([1e-9, 3e-9]), 0.0]
    assert totals[3] == pytest.approx(1e-12, rel=1e-12)


def test_infinities_and_nan_stay_in_their_group() -> None:
    rows = frame([(0, math.inf), (0, 1.0), (1, 0.5), (2, math.inf), (2, -math.inf), (3, -math.inf), (4, math.nan)])
    bound = ev.bind({"total": ev.sum("q")}, rows.schema, time="at")
    totals = bound.results(bound.start(rows, ["key"]).cells).sort("key")["total"].to_list()
    assert totals[:2] == [math.inf, 0.5] and totals[3] == -math.inf
    assert math.isnan(totals[2]) and math.isnan(totals[4])
