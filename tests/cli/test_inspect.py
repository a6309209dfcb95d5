"""How ``eventide inspect`` shows what a query holds."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any, ClassVar

import polars as pl
from rich.console import Console

import eventide as ev
from eventide.cli.inspect import as_json, show
from eventide.operators.factory import operator_of
from eventide.operators.operator import Bundle
from eventide.plan.process_plan import ProcessPlan
from eventide.spark.inspection import OperatorState, processor_tables
from eventide.spark.key_sizes import NO_KEYS, KeySizes
from eventide.spark.stored_progress import Origin
from eventide.time import as_datetime, instant

NOON = instant("2026-03-01T12:00Z")


class Visits(ev.RowProcessor):
    """Counts the visits of each shop, and looks after it an hour later."""

    state_schema: ClassVar[dict[str, Any]] = {"visits": pl.Int64}

    def process_row(self, edge: str, row: dict[str, Any], state: dict[str, Any]) -> None:
        state["visits"] = (state["visits"] or 0) + 1
        self.set_timer("2026-03-01T13:00Z", name="later")


def tables(shops: list[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The state and the timers after one bundle."""
    pipeline = ev.stream(time="ts", key="shop").process(Visits(), output={"shop": pl.String})
    rows = pl.DataFrame({"ts": [NOON] * len(shops), "shop": shops}, schema={"ts": pl.Int64, "shop": pl.String})
    operator = operator_of(pipeline.plan, rows.schema)
    step = operator.step(operator.initial(), Bundle(rows, NOON))
    assert isinstance(pipeline.plan, ProcessPlan)
    return processor_tables(pipeline.plan, operator.scan(step.state))


def held(**more: Any) -> OperatorState:
    plan = {"processor": "Visits", "key": "shop"}
    empty = OperatorState(0, 2, plan, 1, NOON, {0: as_datetime(NOON)}, as_datetime(NOON), (), (), 1, 100, None)
    return replace(empty, **more)


def shown(operator: OperatorState, limit: int = 20) -> str:
    console = Console(file=io.StringIO(), width=120)
    show(console, operator, limit)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_a_processor_shows_its_state_and_its_timers() -> None:
    state, timers = tables(["kiel", "ulm", "kiel"])
    picture = shown(held(state=state, timers=timers))
    assert "2 keys with state, 2 timers" in picture
    assert "visits" in picture and "later" in picture and "2026-03-01T13:00:00Z" in picture
    plain = json.loads(json.dumps(as_json(held(state=state, timers=timers))))
    assert plain["state"] == [{"shop": "kiel", "visits": 2}, {"shop": "ulm", "visits": 1}]
    assert plain["timers"][0] == {"shop": "kiel", "timer": "later", "at": "2026-03-01T13:00:00Z", "clock": False}


def test_a_processor_without_state_has_empty_tables() -> None:
    state, timers = tables([])
    assert (state.columns, timers.columns) == (["shop", "visits"], ["shop", "timer", "at", "clock"])
    assert "0 keys with state, 0 timers" in shown(held(state=state, timers=timers))


def test_lists_are_cut_at_the_limit_and_say_how_much_is_left() -> None:
    state, timers = tables(["kiel", "ulm", "bonn"])
    picture = shown(held(state=state, timers=timers), limit=1)
    assert "bonn" in picture and "kiel" not in picture
    assert picture.count("and 2 more (--limit)") == 2
    assert len(as_json(held(state=state, timers=timers), 1)["state"]) == 1


def test_a_watermark_without_origins_says_so() -> None:
    assert "none: there is one watermark for all rows" in shown(held())
    with_origin = shown(held(origins=(Origin("till-west", "active", {0: as_datetime(NOON)}),)))
    assert "none:" not in with_origin and "till-west" in with_origin


def test_origins_that_were_forgotten_are_counted() -> None:
    assert "forgotten  1,200 origins" in shown(held(forgotten_origins=1_200))
    assert as_json(held(forgotten_origins=3))["forgotten_origins"] == 3


def test_the_largest_keys_and_the_windows_that_are_closed_next_are_tables_and_json() -> None:
    key = {"shop": "kiel", "since": as_datetime(NOON)}
    largest = pl.DataFrame({"key": [key], "entries": [2], "rows": [1_200], "bytes": [4_096]})
    window = {"window_start": [as_datetime(NOON)], "window_end": [None], "limit": ["rows"], "room": [300]}
    operator = held(keys=KeySizes(1_500, largest, pl.DataFrame({"key": [key], **window})))
    picture = shown(operator)
    assert "keys       1,500 in state" in picture and "largest keys" in picture and "closes next" in picture
    assert picture.count("shop=kiel, since=2026-03-01T12:00:00Z") == 2  # in tables, and not in lines, too
    assert "1,200" in picture and "300" in picture
    plain = json.loads(json.dumps(as_json(operator)))
    stored_key = {"shop": "kiel", "since": "2026-03-01T12:00:00Z"}
    assert plain["keys"] == 1_500
    assert plain["largest_keys"] == [{"key": stored_key, "entries": 2, "rows": 1_200, "bytes": 4_096}]
    assert plain["closes_next"] == [
        {"key": stored_key, "window_start": "2026-03-01T12:00:00Z", "window_end": None, "limit": "rows", "room": 300}
    ]


def test_a_plan_without_a_key_and_without_limits_lists_none() -> None:
    plain = as_json(held(keys=NO_KEYS))
    assert (plain["keys"], plain["largest_keys"], plain["closes_next"]) == (0, [], None)
    assert "largest" not in shown(held(keys=NO_KEYS))


def test_keys_that_were_not_asked_for_are_null() -> None:
    plain = as_json(held())
    assert (plain["keys"], plain["largest_keys"], plain["closes_next"]) == (None, None, None)
    assert "keys" not in shown(held())
