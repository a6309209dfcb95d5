"""A join in SQL is the same plan as the one that Python builds."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import eventide as ev

STREAMS = """
CREATE STREAM orders (id INT, ts TIMESTAMP, price INT) WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE;
CREATE STREAM payments (id INT, paid TIMESTAMP, amount INT) WATERMARK FOR paid AS paid - INTERVAL '5' MINUTE;
"""


def orders(key: str = "id") -> ev.Stream:
    return ev.stream(time="ts", key=key, watermark=ev.bounded_delay("1 minute"))


def payments(key: str = "id") -> ev.Stream:
    return ev.stream(time="paid", key=key, watermark=ev.bounded_delay("5 minutes"))


def plan(text: str) -> Any:
    return ev.sql(STREAMS + text).plan


BOUNDS: dict[str, tuple[Any, Any]] = {
    "p.paid BETWEEN o.ts AND o.ts + INTERVAL '10' MINUTE": ("0 seconds", "10 minutes"),
    "p.paid BETWEEN o.ts - INTERVAL '5' SECOND AND o.ts + INTERVAL '10' MINUTE": ("-5 seconds", "10 minutes"),
    "o.ts BETWEEN p.paid - INTERVAL '10' MINUTE AND p.paid": ("0 seconds", "10 minutes"),
    "p.paid >= o.ts AND p.paid <= o.ts + INTERVAL '10' MINUTE": ("0 seconds", "10 minutes"),
    "o.ts <= p.paid AND p.paid - INTERVAL '10' MINUTE <= o.ts": ("0 seconds", "10 minutes"),
    "p.paid > o.ts AND p.paid < o.ts + INTERVAL '10' MINUTE": (
        timedelta(microseconds=1),
        timedelta(minutes=10) - timedelta(microseconds=1),
    ),
    "p.paid >= o.ts AND p.paid >= o.ts + INTERVAL '1' SECOND AND p.paid <= o.ts + INTERVAL '1' MINUTE": ("1s", "1m"),
}


@pytest.mark.parametrize(("bound", "within"), BOUNDS.items(), ids=list(BOUNDS))
def test_comparing_times_bounds_a_join(bound: str, within: tuple[Any, Any]) -> None:
    compiled = plan(f"SELECT o.id FROM orders o JOIN payments p ON o.id = p.id AND {bound}")
    assert compiled == ev.join(orders(), payments(), within=within).plan


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
def test_a_join_may_be_outer(how: Any) -> None:
    compiled = plan(
        f"SELECT * FROM orders o {how} JOIN payments p"
        " ON o.id = p.id AND p.paid BETWEEN o.ts AND o.ts + INTERVAL '1' HOUR"
    )
    assert compiled == ev.join(orders(), payments(), within=("0s", "1h"), how=how).plan


def test_equal_columns_may_have_different_names() -> None:
    compiled = plan(
        "SELECT * FROM orders o JOIN payments p ON p.amount = o.price AND o.id = p.id"
        " AND p.paid BETWEEN o.ts AND o.ts + INTERVAL '1' HOUR"
    )
    both = {"price": "amount", "id": "id"}
    assert compiled == ev.join(orders(), payments(), within=("0s", "1h"), on=both).plan


def test_using_names_the_equal_columns() -> None:
    compiled = plan("SELECT * FROM orders JOIN payments OVER (RANGE INTERVAL '1' HOUR PRECEDING) USING (id)")
    assert compiled == ev.join(orders(), payments(), within=("-1 hour", "0 seconds")).plan


def test_other_conditions_are_asked_of_each_pair() -> None:
    compiled = plan(
        "SELECT * FROM orders o JOIN payments p ON o.id = p.id AND p.paid BETWEEN o.ts AND o.ts + INTERVAL '1' HOUR"
        " AND p.amount >= o.price"
    )
    assert str(compiled.where) == '[(col("amount")) >= (col("price"))]'


TWO_MINUTES = {"within": ("-2 minutes", "0 seconds")}
OVER: dict[str, dict[str, Any]] = {
    "OVER (ROWS 3 PRECEDING)": {"last": 3, "keep": "1 day"},
    "OVER (ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)": {"last": 3, "keep": "1 day"},
    "OVER (RANGE INTERVAL '2' MINUTE PRECEDING)": TWO_MINUTES,
    "OVER (ORDER BY paid RANGE BETWEEN INTERVAL '2' MINUTE PRECEDING AND CURRENT ROW)": TWO_MINUTES,
    "OVER (ORDER BY paid RANGE '2' min PRECEDING)": TWO_MINUTES,
}


@pytest.mark.parametrize(("clause", "bound"), OVER.items(), ids=list(OVER))
def test_over_looks_back_from_the_other_stream(clause: str, bound: dict[str, Any]) -> None:
    text = STREAMS.replace("'1' MINUTE;", "'1' MINUTE KEEP INTERVAL '1' DAY;") if "ROWS" in clause else STREAMS
    compiled = ev.sql(f"{text} SELECT * FROM orders o JOIN payments p {clause} ON o.id = p.id").plan
    assert compiled == ev.join(orders(), payments(), **bound).plan


def test_an_open_bound_needs_to_know_how_long_rows_are_kept() -> None:
    text = STREAMS.replace("'1' MINUTE;", "'1' MINUTE KEEP INTERVAL '1' DAY;")
    compiled = ev.sql(f"{text} SELECT * FROM orders o JOIN payments p ON o.id = p.id AND p.paid >= o.ts").plan
    assert compiled == ev.join(orders(), payments(), within=("0s", None), keep="1 day").plan


@pytest.mark.parametrize("how", ["inner", "left", "full"])
def test_rows_of_the_same_window_are_a_window_join(how: Any) -> None:
    compiled = plan(
        f"SELECT o.id, o.window_start FROM TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE) o"
        f" {how} JOIN TUMBLE(payments, DESCRIPTOR(paid), INTERVAL '1' MINUTE) p"
        " ON o.id = p.id AND o.window_start = p.window_start AND o.window_end = p.window_end"
        " EMIT EARLY ON UPDATE LATE ON UPDATE ALLOWED LATENESS INTERVAL '1' HOUR RETRACTING"
    )
    trigger = ev.after_watermark(early=ev.on_update(), late=ev.on_update())
    assert (
        compiled
        == ev.window_join(
            orders(),
            payments(),
            window=ev.tumbling("1 minute"),
            how=how,
            trigger=trigger,
            allowed_lateness="1 hour",
            mode="retracting",
        ).plan
    )


def test_pairs_can_be_grouped_by_an_outer_query() -> None:
    compiled = ev.sql(
        f"{STREAMS} SELECT SUM(amount) AS paid FROM TUMBLE((SELECT * FROM orders o JOIN payments p ON o.id = p.id"
        " AND p.paid BETWEEN o.ts AND o.ts + INTERVAL '1' HOUR), DESCRIPTOR(ts), INTERVAL '1' DAY)"
    )
    first, second = (operator.plan for operator in compiled.pipeline.operators)
    assert first == ev.join(orders(), payments(), within=("0s", "1h")).plan
    assert second == ev.stream(time="ts").window(ev.tumbling("1 day")).agg(paid=ev.sum("amount")).plan
