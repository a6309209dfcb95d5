"""Changes of a plan that stored state depends on are reported; others are allowed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl
import pytest

import eventide as ev
from eventide.plan.fingerprint import fingerprint
from eventide.state.errors import plan_changes


def plan(**options: object) -> dict[str, str]:
    strategy = options.get("watermark", ev.bounded_delay("10 seconds", origin="till"))
    stream = ev.stream(time="ts", key="shop", watermark=strategy).window(options.get("window", ev.tumbling("1m")))
    return fingerprint(stream.agg(n=options.get("n", ev.count())).plan)  # type: ignore[arg-type]


def test_equal_plans_have_equal_fingerprints() -> None:
    def with_function() -> dict[str, str]:
        return plan(n=ev.reduce(lambda a, b: a + b, "v"))

    assert with_function() == with_function()


def test_a_fingerprint_is_plain_text_and_no_representation_of_objects() -> None:
    join = ev.join(
        ev.stream(time="t", key="k", watermark=ev.bounded_delay("1s")),
        ev.stream(time="t", key="k", watermark=ev.bounded_delay("1s")),
        within=("0s", "1m"),
        where=pl.col("a") > pl.col("b"),
    )
    for facts in (plan(), fingerprint(join.plan)):
        for name, text in facts.items():
            assert "object at" not in text and "Kept(" not in text and "Strategy(" not in text, name


@pytest.mark.parametrize(
    ("options", "change"),
    [
        ({"window": ev.tumbling("5m")}, "the window changed from tumbling(1m) to tumbling(5m)"),
        ({"window": ev.tumbling("1m", offset="5s")}, "the window changed from tumbling(1m) to tumbling(1m, offset=5s)"),
        ({"n": ev.sum("v")}, "the aggregate n changed from count() to sum(v)"),
    ],
)
def test_a_change_is_reported_once(options: dict[str, object], change: str) -> None:
    assert plan_changes(plan(), plan(**options)) == [change]


def test_each_origin_that_is_expected_counts() -> None:
    before = plan(watermark=ev.bounded_delay("1s", origin="till", expect_origins=["a", "b"]))
    after = plan(watermark=ev.bounded_delay("1s", origin="till", expect_origins=["a", "c"]))
    assert plan_changes(before, after) == [
        "the watermark changed from bounded_delay(1s, origin=till, expect_origins=[a, b]) "
        "to bounded_delay(1s, origin=till, expect_origins=[a, c])"
    ]


@dataclass(frozen=True)
class Shifts:
    """A user-written window kind whose description lacks its length."""

    hours: int
    axis = "time"
    slice = 1

    def assign(self, at: pl.Expr) -> list[tuple[pl.Expr, pl.Expr]]:
        raise NotImplementedError

    def describe(self) -> str:
        return "shifts"


def test_the_fields_of_a_user_written_window_kind_count() -> None:
    def shifts(hours: int) -> dict[str, str]:
        stream = ev.stream(time="ts", watermark=ev.bounded_delay("1s")).window(ev.tumbling("1m")).agg(n=ev.count())
        return fingerprint(replace(stream.plan, window=Shifts(hours)))

    assert plan_changes(shifts(8), shifts(6)) == [
        "the window changed from shifts {class: Shifts, hours: 8} to shifts {class: Shifts, hours: 6}"
    ]


def test_the_address_and_the_token_of_a_stream_are_no_part_of_it() -> None:
    facts = plan(watermark=ev.noted("postgresql://me:secret@db/shop#orders", token="hush"))
    assert not any("secret" in text or "hush" in text for text in facts.values())


def test_consequences_of_a_change_are_left_out() -> None:
    before = {"aggregate n": "sum(v)", "stored n": "Int64"}
    assert plan_changes(before, {"aggregate n": "mean(v)", "stored n": "Float64"}) == [
        "the aggregate n changed from sum(v) to mean(v)"
    ]
    assert plan_changes(before, before | {"stored n": "Float64"}) == ["the stored n changed from Int64 to Float64"]


def test_the_guard_against_future_events_may_change_under_state() -> None:
    guarded = plan(watermark=ev.bounded_delay("1s", origin="till", max_future_skew="1 hour"))
    assert plan_changes(plan(watermark=ev.bounded_delay("1s", origin="till")), guarded) == []
