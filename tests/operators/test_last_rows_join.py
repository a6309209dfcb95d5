"""Joins with what precedes: the case study of orders and shipments, whose messages come late and out of order."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import eventide as ev


def stream(watermark: Any = None) -> ev.Stream:
    return ev.stream(time="time", key="id", watermark=watermark)


def bundle(orders: list[tuple[int, int, str]], shipments: list[tuple[int, int, str]]) -> dict[str, pl.DataFrame]:
    schema: dict[str, Any] = {"id": pl.Int64, "time": pl.String}
    return {
        "left": pl.DataFrame(
            [(id_, f"2026-03-01T{at}Z", cost) for cost, id_, at in shipments],
            schema=schema | {"cost": pl.Int64},
            orient="row",
        ),
        "right": pl.DataFrame(
            [(id_, f"2026-03-01T{at}Z", value) for value, id_, at in orders],
            schema=schema | {"value": pl.Int64},
            orient="row",
        ),
    }


# (value, id, time) of orders and (cost, id, time) of shipments, as they have come by 9:01, 9:02 and 9:03.
HISTORY = [
    bundle([(0, 1, "08:59:10"), (5, 3, "09:00:00")], [(0, 3, "09:00:10"), (2, 1, "09:00:10")]),
    bundle([], [(3, 1, "09:01:10"), (1, 9, "09:01:20")]),
    bundle([(9, 9, "08:59:30")], []),
]
EMITTED = [[(3, 5, 0), (1, 0, 2)], [(1, 0, 3)], [(9, 9, 1)]]  # id, value, cost


@pytest.mark.parametrize(
    "bound",
    [{"last": 3, "keep": "1 hour"}, {"within": ("-2 minutes", "0 seconds")}],
    ids=["ROWS 3 PRECEDING", "RANGE 2 MINUTES PRECEDING"],
)
def test_shipments_join_orders_over_what_precedes(bound: dict[str, Any]) -> None:
    query = ev.join(stream(), stream(), **bound).start_local()
    observed = [list(query.push(rows, now=0).panes.select("id", "value", "cost").iter_rows()) for rows in HISTORY]
    assert observed == EMITTED


def pairs(last: int, *bundles: Any, how: Any = "inner") -> list[list[Any]]:
    """Of bundles ``(left values, right values)`` of one key."""
    query = ev.join(stream(), stream(), last=last, keep="1 hour", how=how).start_local()
    observed = []
    for at, sides in enumerate(bundles):
        frames = {}
        for name, values in zip(("left", "right"), sides, strict=True):
            schema = {"id": pl.Int64, "time": pl.Int64, name[0]: pl.Int64}
            frames[name] = pl.DataFrame([(1, at, value) for value in values], schema=schema, orient="row")
        observed.append(list(query.push(frames, now=0).panes.select("l", "r").iter_rows()))
    return observed


def test_a_left_row_meets_the_last_rows_of_its_key() -> None:
    assert pairs(2, ([], [1, 2, 3]), ([10], [])) == [[], [(10, 2), (10, 3)]]


def test_in_a_bundle_the_right_rows_are_processed_first() -> None:
    assert pairs(2, ([10], [1, 2, 3])) == [[(10, 2), (10, 3)]]


def test_a_right_row_matches_each_kept_left_row_once_when_it_arrives() -> None:
    assert pairs(1, ([10], []), ([], [1, 2]), ([], [3])) == [[], [(10, 1), (10, 2)], [(10, 3)]]


def test_a_right_row_that_others_have_replaced_is_padded_if_it_has_met_none() -> None:
    assert pairs(1, ([], [1]), ([], [2]), ([10], []), ([], [3]), how="right") == [
        [],
        [(None, 1)],
        [(10, 2)],
        [(10, 3)],
    ]


def test_a_range_that_precedes_is_an_interval() -> None:
    plan = ev.join(stream(), stream(), within=("-2 minutes", "0 seconds")).plan
    assert (plan.lo, plan.hi, plan.last) == (-120_000_000, 0, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "either within= or last="),
        ({"within": "1 hour", "last": 3}, "either within= or last="),
        ({"last": 0}, "last=0 is not a count"),
        ({"last": True}, "not a count"),
        ({"last": 3}, r"left stream would never be dropped.*keep=\{'left': '1 hour'\}"),
    ],
)
def test_a_mistake_about_what_precedes_is_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ev.PlanError, match=message):
        ev.join(stream(), stream(), **options)


def test_a_join_over_rows_explains_what_is_kept() -> None:
    explanation = ev.join(stream(ev.bounded_delay("1 minute")), stream(), last=3, keep="1 hour").explain()
    assert "within  the last 3 right rows of the key\n" in explanation
    assert "state  messages by equal fields + offset\n" in explanation
    assert "left kept  1h behind the left watermark (keep)\n" in explanation
    assert "right kept  the last 3 rows of each key\n" in explanation
