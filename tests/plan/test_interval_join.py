"""How interval joins are built, rejected and explained."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.plan.join_plan import SideRetention

ORDERS = ev.stream(time="at", key="order", watermark=ev.bounded_delay("1 minute"))
PAYMENTS = ev.stream(time="at", key="order", watermark=ev.bounded_delay("5 minutes"))


def join(**options: Any) -> ev.Pipeline:
    return ev.join(ORDERS, PAYMENTS, **({"within": "1 hour"} | options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"within": 5}, "not a duration or a pair"),
        ({"within": ("1 hour",)}, "not a duration or a pair"),
        ({"within": ("1 hour", "1 minute")}, "lower bound is above the upper bound"),
        ({"within": "-1 minute"}, "lower bound is above the upper bound"),
        ({"within": ("0 minutes", "90000 weeks 2000000 weeks")}, "36,000 years"),
        ({"within": ("0 minutes", "1 hous")}, "Did you mean 'hours'"),
        ({"within": ("0 minutes", None)}, r"without an upper bound.*left stream.*keep=\{'left': '1 hour'\}"),
        ({"within": (None, "1 hour")}, r"without a lower bound.*right stream.*keep=\{'right': '1 hour'\}"),
        ({"how": "outer"}, "how='outer' is not known"),
        ({"on": 7}, "on=7"),
        ({"on": {"order": ""}}, "is not a column name"),
        ({"on": {"order": "id", "shop": "id"}}, "'id'.*twice"),
        ({"where": "price > 5"}, "not a Polars expression"),
        ({"max_matches": 0}, "max_matches=0"),
        ({"within": (None, None), "keep": {"lft": "1 hour"}}, "Did you mean 'left'"),
        ({"within": ("0s", None), "keep": {"right": "1 hour"}}, "rows of the right stream are stored"),
        ({"within": ("0s", None), "keep": "1"}, "is not a duration"),
        ({"forget_after": "30 days"}, "belongs to last=n"),
    ],
)
def test_an_invalid_join_is_rejected_when_it_is_built(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ev.PlanError, match=message):
        join(**options)


def test_something_must_be_equal() -> None:
    plain = ev.stream(time="at")
    with pytest.raises(ev.PlanError, match="no key to join by"):
        ev.join(plain, plain, within="1 hour")


@pytest.mark.parametrize(
    ("options", "left", "right", "message"),
    [
        ({}, {"paid": pl.Int64}, {"paid_right": pl.Int64, "paid": pl.Int64}, "two columns 'paid_right'"),
        ({}, {"diff": pl.Int64}, {}, "'diff'"),
        ({"where": pl.col("price") > 5}, {"prices": pl.Int64}, {}, "Did you mean 'prices'"),
        ({"where": pl.col("price") + 5}, {"price": pl.Int64}, {}, "must give a boolean"),
    ],
)
def test_a_mistake_in_a_join_is_rejected_before_any_row(options: Any, left: Any, right: Any, message: str) -> None:
    columns = {"order": pl.String, "at": pl.Datetime("us", "UTC")}
    with pytest.raises(ev.PlanError, match=message):
        join(**options).start_local({"left": columns | left, "right": columns | right})


def test_keys_of_different_types_never_meet_and_are_rejected() -> None:
    schemas = {"left": {"order": pl.String, "at": pl.Int64}, "right": {"order": pl.Int64, "at": pl.Int64}}
    with pytest.raises(ev.PlanError, match="Cast one of them"):
        join().start_local(schemas)


def test_rows_are_kept_until_the_other_side_has_passed_their_last_partner() -> None:
    plan = join(within=("-1 minute", "1 hour")).plan
    assert plan.retention == (SideRetention(by=1, length=3_600_000_000), SideRetention(by=0, length=60_000_000))


def test_where_a_bound_is_open_rows_are_kept_for_the_length_of_keep() -> None:
    plan = ev.join(ORDERS, PAYMENTS, within=(timedelta(0), None), keep=timedelta(microseconds=7)).plan
    assert plan.retention == (SideRetention(by=0, length=7), SideRetention(by=0, length=0))
    assert plan.slice is None


def test_each_side_without_a_bound_is_kept_for_its_length_in_keep() -> None:
    both = join(within=(None, None), keep="1 second").plan
    assert both.retention == (SideRetention(by=0, length=1_000_000), SideRetention(by=1, length=1_000_000))
    apart = join(within=(None, None), keep={"left": "1 second", "right": "2 seconds"}).plan
    assert apart.retention == (SideRetention(by=0, length=1_000_000), SideRetention(by=1, length=2_000_000))


def test_two_rules_for_how_long_rows_are_kept_are_rejected() -> None:
    with pytest.raises(ev.PlanError, match="already determines how long"):
        ev.join(ORDERS, PAYMENTS, within="1 hour", keep="1 day")


def test_a_join_can_be_shipped() -> None:
    pipeline = join(where=pl.col("a") > 1)
    assert pickle.loads(pickle.dumps(pipeline)).explain() == pipeline.explain()


def test_a_join_explains_what_meets_and_what_is_kept_for_how_long() -> None:
    explanation = join(within=("-1 minute", "1 hour"), how="left", where=pl.col("paid") > 0).explain()
    assert explanation == (
        "       join  left: pairs, and each left row without a partner, once none can arrive\n"
        "     inputs  left: time 'at', key 'order', bounded delay 1m\n"
        "             right: time 'at', key 'order', bounded delay 5m\n"
        "      equal  left.order = right.order\n"
        "     within  -1m <= right.time - left.time <= 1h\n"
        '      where  [(col("paid")) > (dyn int: 0)]\n'
        "      state  messages by equal fields + time + offset, found by equal fields and slices of 1h 1m\n"
        "  left kept  until the right watermark is past left.time + 1h\n"
        " right kept  until the left watermark is past right.time + 1m\n"
        "      limit  10,000,000 pairs in one bundle\n"
        "may be lost  nothing: rows too late go to the late output, unusable ones to the dead letters\n"
        "             with .transform() on Spark: late rows and dead letters, which pipeline.run and ev.outputs keep\n"
    )


def test_rows_that_wait_for_a_stream_without_a_watermark_are_kept_to_the_end() -> None:
    explanation = ev.join(ORDERS, ev.stream(time="at", key="order"), within="1 hour").explain()
    assert "left kept  until the streams end: the right stream has no watermark\n" in explanation
    assert "right kept  until the left watermark is past right.time + 1h\n" in explanation


def test_an_open_bound_is_explained() -> None:
    explanation = ev.join(ORDERS, PAYMENTS, within=("0 seconds", None), keep="1 minute").explain()
    assert "within  0s <= right.time - left.time\n" in explanation
    assert "left kept  1m behind the left watermark (keep)\n" in explanation
    assert "may be lost  pairs with a row that was no longer stored" in explanation
