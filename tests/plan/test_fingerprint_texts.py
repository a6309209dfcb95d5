"""The texts of fingerprints are stored with state: ``fingerprints.txt`` shows them, and every option is part of one.

``python -m tests.plan.test_fingerprint_texts`` rewrites the file. After a release, existing lines must not change.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.aggregates.aggregate import Aggregate
from eventide.plan.fingerprint import fingerprint
from eventide.plan.fingerprint_parts import aggregate_text, strategy_text, trigger_text, window_text
from eventide.plan.join_plan import JoinPlan, SideRetention
from eventide.plan.plan import IngestionTime, Input, Plan, Sides
from eventide.plan.process_plan import ProcessPlan
from eventide.plan.window_plan import StateLimits, WindowPlan
from eventide.watermarks.generators import Noted, NoWatermark, WatermarkGenerator
from eventide.watermarks.options import Options
from eventide.watermarks.strategies import Strategy
from eventide.windows import Calendar, Cumulate, GlobalWindow, Inherit, Sliding, Tumbling

GOLDEN = Path(__file__).parent / "fingerprints.txt"


def add(left: int, right: int) -> int:
    return left + right


class Totals(ev.Processor):
    state_schema = {"total": pl.Int64}  # noqa: RUF012

    def process(self, rows: pl.DataFrame, *arguments: Any) -> pl.DataFrame:
        return rows


WINDOWS = [
    ev.tumbling("1 minute"),
    ev.tumbling("1 day", offset="6 hours"),
    ev.sliding("10 minutes", every="1 minute"),
    ev.sliding("10 minutes", every="3 minutes", offset="30 seconds"),
    ev.cumulate("1 hour", "1 day"),
    ev.cumulate("1 hour", "1 day", offset="2 hours"),
    ev.calendar("month"),
    ev.calendar("day", tz="Europe/Berlin"),
    ev.sessions("30 minutes"),
    ev.sessions("30 minutes", touching="split", max_duration="4 hours"),
    ev.sessions("patience"),
    ev.rows(100),
    ev.rows(100, every=10, timeout="1 hour", forget_after="30 days"),
    ev.rows(100, by="offset", first=0),
    ev.row_sessions(absent=5),
    ev.row_sessions(absent=5, by="offset", timeout="1 hour"),
    ev.global_window(),
    ev.inherit(),
]
TRIGGERS = [
    ev.after_watermark(),
    ev.after_watermark(early=ev.every("10 seconds"), late=ev.on_update()),
    ev.after_count(100),
    ev.after_processing_time("10 seconds"),
    ev.every("2 minutes", aligned=True, offset="1 minute"),
    ev.any_of(ev.after_count(5), ev.after_watermark()),
    ev.all_of(ev.after_count(5), ev.after_watermark()),
    ev.in_order(ev.after_count(1), ev.repeatedly(ev.after_count(100))),
    ev.or_finally(ev.on_update(), ev.after_watermark()),
    ev.never(),
]
STRATEGIES = [
    ev.bounded_delay("30 seconds"),
    ev.bounded_delay("30 seconds", at_latest="5 minutes", origin="partition", idle_timeout="2 minutes"),
    ev.bounded_delay(
        "1 second",
        origin="device",
        sequence="n",
        first_sequence=0,
        gap_timeout="1 hour",
        chunk="part",
        last_chunk="is last",
        first_chunk=0,
        idle_timeout="1 minute",
        on_return="catch_up",
        forget_after="1 day",
        expect_origins=["a", "b"],
        origins_timeout="5 minutes",
        max_future_skew="1 hour",
        watermark_key=3,
    ),
    ev.bounded_delay("1 second", origin="partition", sequence="offset", first_sequence=0, gaps="allowed"),
    ev.bounded_delay("1 second", sequence="n").deduplicating(),
    ev.bounded_delay("1 second").deduplicating_ids(("order", "line"), 60_000_000),
    ev.bounded_delay("1 second", origin="partition").by_offset("offset"),
    ev.ascending(origin="file", expect_origins=4),
    ev.punctuated("safe_until"),
    ev.noted("sqlite:///shop.db#orders"),
    ev.processing_time("1 minute"),
    ev.no_watermark(),
]
AGGREGATES = [
    ev.count(),
    ev.count("price", where="paid"),
    ev.sum("price"),
    ev.sum(pl.col("price") * 2, where=pl.col("price") > 5),
    ev.mean("price"),
    ev.var("price"),
    ev.std("price"),
    ev.min("price"),
    ev.max("price"),
    ev.min_by("shop", "price"),
    ev.max_by("shop", "price"),
    ev.first("price"),
    ev.last("price", ignore_nulls=True, where="paid"),
    ev.collect_list("price"),
    ev.collect_set("price"),
    ev.collect_sorted("price", descending=True),
    ev.count_distinct("price"),
    ev.top_n("price", 3),
    ev.top_n_by_key("price", "shop", 3),
    ev.median("price"),
    ev.quantile("price", 0.95),
    ev.mode("price"),
    ev.approx_distinct("price"),
    ev.approx_distinct("price", precision=14),
    ev.approx_quantile("price", 0.5, accuracy=0.02),
    ev.reduce(add, "price"),
    ev.fold(0, add, column="price", on_error="raise"),
    ev.fold({"n": [1]}, add, merge=add, where="paid", dtype=pl.List(pl.Int64)),
    ev.composite(low=ev.min("price"), high=ev.max("price")),
]


def _stream(**options: Any) -> ev.Stream:
    return ev.stream(**{"time": "ts", "key": "shop", "watermark": ev.bounded_delay("30 seconds"), **options})


def _window_plan() -> WindowPlan:
    plan = _stream().window(ev.tumbling("1 minute")).agg(n=ev.count()).plan
    assert isinstance(plan, WindowPlan)
    return plan


def _join_plan(**options: Any) -> JoinPlan:
    plan = ev.join(_stream(), _stream(time="paid_at"), **{"within": ("0s", "1 hour"), **options}).plan
    assert isinstance(plan, JoinPlan)
    return plan


def _process_plan() -> ProcessPlan:
    plan = _stream().process(Totals(), output={"total": pl.Int64}).plan
    assert isinstance(plan, ProcessPlan)
    return plan


def _plans() -> dict[str, Plan]:
    minute = ev.tumbling("1 minute")
    sides = {"orders": _stream(), "payments": _stream(time="paid_at")}
    return {
        "windows": _window_plan(),
        "windows of rows": _stream().window(ev.rows(5)).agg(n=ev.count()).plan,
        "windows with every option": _stream(time=ev.ingestion_time(), key=["shop", "the till"])
        .window(minute, output_time="latest")
        .emit(early="10 seconds", allowed_lateness="1 hour", mode="accumulating", skip_unchanged=True)
        .limit_state(rows=10, bytes=1_000)
        .agg(n=ev.count(), total=ev.sum("price"))
        .plan,
        "union": ev.union(_stream(), _stream(time="paid_at")).window(minute).agg(n=ev.count()).plan,
        "cogroup": ev.cogroup(sides, window=minute).plan,
        "cogroup with aggregates": ev.cogroup(sides, window=minute, agg={"n": ev.count()}).plan,
        "window join": ev.window_join(_stream(), _stream(), window=minute, how="left", suffix="_b").plan,
        "interval join": _join_plan(),
        "interval join with a condition": _join_plan(how="full", where=pl.col("a") > pl.col("b"), suffix="_b"),
        "join with the last rows": _join_plan(within=None, last=3, keep={"left": "1 hour"}),
        "processor": _process_plan(),
    }


def _lines() -> Iterator[str]:
    for title, texts in (
        ("windows", map(window_text, WINDOWS)),
        ("triggers", map(trigger_text, TRIGGERS)),
        ("watermarks", map(strategy_text, STRATEGIES)),
        ("aggregates", map(aggregate_text, AGGREGATES)),
    ):
        yield f"# {title}"
        yield from texts
    for title, plan in _plans().items():
        yield f"# plan: {title}"
        yield from (f"{name}: {text}" for name, text in fingerprint(plan).items())


def test_no_text_of_a_fingerprint_changes() -> None:
    assert list(_lines()) == GOLDEN.read_text().splitlines()


def _public_dataclasses(*packages: str) -> Iterator[type]:
    for package in map(import_module, packages):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            for part in vars(import_module(module.name)).values():
                if isinstance(part, type) and is_dataclass(part) and part.__module__ == module.name:
                    yield part


def _parts(*packages: str) -> set[type]:
    """The classes that describe a part of a plan; others in these packages belong to operators."""
    return {
        part
        for part in _public_dataclasses(*packages)
        if not part.__name__.startswith("_") and (hasattr(part, "describe") or issubclass(part, Aggregate))
    }


def test_every_kind_of_part_has_a_text() -> None:
    shown = {type(part) for part in (*WINDOWS, *TRIGGERS, *AGGREGATES)}
    shown |= {type(strategy.generator) for strategy in STRATEGIES} | {Strategy, Options}
    described = _parts("eventide.windows", "eventide.triggers", "eventide.aggregates")
    generators = {part for part in _parts("eventide.watermarks") if issubclass(part, WatermarkGenerator)}
    assert described | generators <= shown


LEFT_OUT: Mapping[type, set[str]] = {
    Tumbling: {"forget_after"},  # may change
    Sliding: {"forget_after"},
    **{kind: {"axis"} for kind in (Calendar, Cumulate, GlobalWindow, Inherit)},  # always event time
    Options: {"max_future_skew", "forget_after"},  # may change
    Noted: {"address", "token", "identity"},  # places and secrets
    NoWatermark: {"stated"},  # only for advice
    WindowPlan: {"calls", "applies_diff"},  # change only the rows that arrive
    JoinPlan: {"max_matches", "forget_after"},  # may change
    ProcessPlan: {"calls", "processor", "output", "on_error", "late", "sides"},  # may change
    Input: {"calls"},
}
"""Fields that state does not depend on."""


SIDES, LIMITS, RETENTION = Sides("left"), StateLimits(rows=5), SideRetention(0, 120_000_000)
OTHER_VALUES: list[Any] = [
    *[7_000_000, "other", "rows", True, False, 0.25, None, ("other",), ("other", "name"), {"other": pl.Int8()}],
    *[add, fingerprint, pl.col("x") > 1, pl.Int8(), SIDES, LIMITS, (RETENTION, RETENTION), IngestionTime()],
    *[ev.tumbling("7 minutes"), ev.after_count(7), (ev.after_count(7), ev.never()), ev.ascending(origin="other")],
    *[ev.punctuated("other").generator, Options(origin="other"), {"other": ev.count()}, (("other", ev.count()),)],
    (Input("other", "t", (), ev.ascending()), Input("another", "t", (), ev.ascending())),
]
"""Values of every type that a field of a plan has."""


def _text(part: Any) -> str:
    """The text of a part, alone or in a plan."""
    match part:
        case WindowPlan() | JoinPlan() | ProcessPlan():
            return str(fingerprint(part))
        case Input():
            return str(fingerprint(replace(_join_plan(), inputs=(part, part))))
        case Sides():
            return str(fingerprint(replace(_window_plan(), sides=part)))
        case StateLimits():
            return str(fingerprint(replace(_window_plan(), limits=part)))
        case SideRetention():
            return str(fingerprint(replace(_join_plan(), retention=(part, part))))
        case Strategy():
            return strategy_text(part)
        case Options():
            return strategy_text(replace(BOUNDED, options=part))
        case WatermarkGenerator():
            return strategy_text(replace(BOUNDED, generator=part))
        case Aggregate():
            return aggregate_text(part)
        case _:
            return trigger_text(part) if hasattr(part, "compile") else window_text(part)


BOUNDED = ev.bounded_delay("1 second")
EXAMPLES: list[Any] = [
    *WINDOWS,
    *TRIGGERS,
    *AGGREGATES,
    *STRATEGIES,
    *(strategy.generator for strategy in STRATEGIES),
    *(strategy.options for strategy in STRATEGIES),
    *_plans().values(),
    *_join_plan().inputs,
    Sides(),
    StateLimits(),
    SideRetention(1, 60_000_000),
]


def _depends_on(example: Any, field: str) -> bool:
    """Whether the text of a part changes with a field."""
    for value in OTHER_VALUES:
        try:
            if _text(replace(example, **{field: value})) != _text(example):
                return True
        except (TypeError, AttributeError, ValueError, LookupError):  # a value of another type
            continue
    return False


KINDS = sorted({type(example) for example in EXAMPLES}, key=lambda kind: kind.__qualname__)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__qualname__)
def test_every_field_of_a_part_is_in_the_fingerprint_unless_it_is_listed_as_left_out(kind: type) -> None:
    examples = [example for example in EXAMPLES if type(example) is kind]
    shown = {field.name for field in fields(kind) if any(_depends_on(example, field.name) for example in examples)}
    assert shown == {field.name for field in fields(kind)} - LEFT_OUT.get(kind, set())


if __name__ == "__main__":
    GOLDEN.write_text("\n".join(_lines()) + "\n")
