"""Sums and means: never a wrong number."""

from __future__ import annotations

from decimal import Decimal

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eventide.aggregates as ev
from eventide.errors import DataError, PlanError
from tests.aggregates.cases import SCHEMA

MOST = 2**63 - 1


def shop_sum(rows: pl.DataFrame) -> tuple[ev.Bound, pl.DataFrame]:
    bound = ev.bind({"total": ev.sum("n")}, rows.schema, time="at")
    return bound, bound.start(rows.with_columns(at=0), ["shop"]).cells


def test_a_sum_that_does_not_fit_names_the_column_and_the_key() -> None:
    rows = pl.DataFrame({"shop": ["x", "y", "y"], "n": [1, MOST, 1]})
    with pytest.raises(DataError, match=r"sum\(n\) does not fit into Int64 for shop='y'\. Cast"):
        shop_sum(rows)


def test_a_merge_that_does_not_fit_is_rejected_too() -> None:
    bound, cells = shop_sum(pl.DataFrame({"shop": ["x", "y"], "n": [1, MOST]}))
    with pytest.raises(DataError, match=r"sum\(n\) does not fit into Int64 for shop='y'"):
        bound.merge(pl.concat([cells, cells]), ["shop"])


def test_a_sum_that_only_looks_too_great_is_right() -> None:
    rows = pl.DataFrame({"shop": ["x", "x", "x", "y"], "n": [MOST, MOST, -MOST, -MOST - 1]})
    bound, cells = shop_sum(rows)
    assert dict(bound.results(cells).rows()) == {"x": MOST, "y": -MOST - 1}


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.lists(st.sampled_from([MOST, -MOST - 1, MOST // 2, 1, -1, None]), min_size=1, max_size=5))
def test_a_sum_is_right_or_rejected(values: list[int | None]) -> None:
    rows = pl.DataFrame({"n": pl.Series(values, dtype=pl.Int64)})
    known = [v for v in values if v is not None]
    if -MOST - 1 <= sum(known) <= MOST:
        assert ev.try_out(rows, total=ev.sum("n")) == {"total": sum(known) if known else None}
    else:
        with pytest.raises(DataError):
            ev.try_out(rows, total=ev.sum("n"))


@pytest.mark.parametrize("dtype", [pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64])
def test_whole_numbers_of_every_width_add_up_in_64_bits(dtype: type[pl.DataType]) -> None:
    most = pl.select(dtype.max()).item()  # type: ignore[attr-defined]
    rows = pl.DataFrame({"n": pl.Series([most] * 3, dtype=dtype)})
    if dtype == pl.UInt64:
        with pytest.raises(DataError, match="does not fit"):
            ev.try_out(rows, total=ev.sum("n"))
    else:
        assert ev.try_out(rows, total=ev.sum("n"), mean=ev.mean("n")) == {"total": 3 * most, "mean": float(most)}


def test_a_large_unsigned_number_that_is_retracted_leaves_nothing() -> None:
    rows = pl.DataFrame({"n": pl.Series([2**64 - 1, 2**64 - 1, 5], dtype=pl.UInt64), "d": [1, -1, 1]})
    assert ev.try_out(rows, diff="d", total=ev.sum("n")) == {"total": 5}


def test_the_mean_of_great_numbers_does_not_overflow() -> None:
    micros = 1_750_000_000_000_000
    assert ev.try_out({"n": [micros] * 10_000}, mean=ev.mean("n")) == {"mean": float(micros)}


def test_narrow_floats_add_up_as_doubles() -> None:
    rows = pl.DataFrame({"f": pl.Series([16777216.0, 1.0], dtype=pl.Float32)})
    assert ev.try_out(rows, total=ev.sum("f")) == {"total": 16777217.0}


def test_decimals_keep_their_scale_and_means_get_four_digits_more() -> None:
    rows = pl.DataFrame({"p": [Decimal("0.10"), Decimal("0.25"), Decimal("0.00")]})
    result = ev.try_out(rows, total=ev.sum("p"), mean=ev.mean("p"))
    assert str(result["total"]) == "0.35"
    assert str(result["mean"]) == "0.116667"


def test_a_decimal_sum_of_39_digits_is_rejected() -> None:
    rows = pl.DataFrame({"shop": ["x"] * 2, "n": pl.Series([Decimal("9" * 38)] * 2, dtype=pl.Decimal(38, 0))})
    with pytest.raises(DataError, match=r"does not fit into Decimal.* for shop='x'"):
        shop_sum(rows)


@pytest.mark.parametrize("aggregate", [ev.sum, ev.mean, ev.var, ev.std, ev.median])
def test_only_numbers_add_up(aggregate: type[ev.Aggregate]) -> None:
    with pytest.raises(PlanError, match=r"column 's' is String, but \w+ needs numbers\. Cast it to a number first"):
        ev.bind({"x": aggregate("s")}, SCHEMA, time="at")  # type: ignore[call-arg]


def test_a_sum_of_booleans_says_how_to_count_them() -> None:
    with pytest.raises(PlanError, match="cast it to Int8 first"):
        ev.bind({"x": ev.sum("b")}, {"b": pl.Boolean()}, time="at")


def test_variance_survives_large_values_that_are_close_together() -> None:
    values = [1e9 + x for x in (4.0, 7.0, 13.0, 16.0)]
    bound = ev.bind({"v": ev.var("f")}, {"f": pl.Float64()}, time="at")
    cells = [bound.start(pl.DataFrame({"f": part, "at": 0}), []).cells for part in (values[:1], values[1:])]
    assert bound.results(bound.merge(pl.concat(cells), []))["v"].item() == pytest.approx(30.0, rel=1e-12)
