"""Progress that is coalesced in one place: the same bytes, pages and state that grow with tasks plus buckets."""

from __future__ import annotations

import itertools
import json
from random import Random
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.spark import shuffle_pages as page
from eventide.spark.buckets import bucket_labels
from eventide.spark.coalesced_progress import COALESCED_FROM, TRACKED, default_progress
from eventide.spark.shuffle_pages import Progress, ShufflePage, Stage, traits_of
from eventide.spark.stamp import split_rows, stamp_to_pages
from eventide.time import MIN
from tests.pages.divided_state import redistribute
from tests.pages.test_histories import rows_of
from tests.spark.harness import Buckets, PagesHost

SCHEMA = {"id": pl.Int64(), "t": pl.Int64(), "device": pl.String(), "n": pl.Int64()}
NUMBERED = ev.bounded_delay("5 microseconds", origin="device", sequence="n", idle_timeout="40 microseconds")
WINDOWS = (
    ev.stream(time="t", key="id", watermark=NUMBERED)
    .window(ev.tumbling("10 microseconds"))
    .emit(allowed_lateness="10 microseconds")
    .agg(rows=ev.count())
)
SIDE = ev.stream(time="t", key="id", watermark=ev.bounded_delay("5 microseconds", origin="device"))
CASES = {
    "windows": (WINDOWS, 1),
    "chain": (
        WINDOWS.then(ev.stream(time="window_time", key="id").window(ev.tumbling("30 microseconds")).agg(n=ev.count())),
        1,
    ),
    "interval join": (ev.join(SIDE, SIDE, within=("-10 microseconds", "4 microseconds"), how="full"), 2),
    "union": (
        ev.union(left=SIDE, right=SIDE).window(ev.tumbling("10 microseconds")).agg(rows=ev.count()),
        2,
    ),
}
_serial = itertools.count()


def stage_of(pipeline: ev.Pipeline, progress: Progress, buckets: int, inputs: int = 1) -> Stage:
    return Stage(f"coalesced {next(_serial)}", pipeline.plan, (SCHEMA,) * inputs, buckets, progress=progress)


def random_rows(rng: Random, start: int, numbers: dict[str, int]) -> pl.DataFrame:
    """Rows of a few devices. Some numbers are left out for good, so that gaps hold the watermark back."""
    rows = []
    for _ in range(rng.randrange(12)):
        device = rng.choice("abc")
        numbers[device] = numbers.get(device, 0) + rng.choice([1, 1, 1, 2])
        rows.append(
            {"id": rng.randrange(6), "t": start + rng.randrange(-15, 15), "device": device, "n": numbers[device]}
        )
    return pl.DataFrame(rows, schema=SCHEMA)


def random_command(rng: Random, now: int, *, named: bool) -> dict[str, Any] | None:
    name = rng.choice(["left: a", "right", "c"]) if named else rng.choice("abcz")
    return rng.choice(
        [
            None,
            {"do": "retire", "origin": name},
            {"do": "skip_gap", "origin": name},
            {"do": "advance_watermark", "watermark": now - 20, "to": None},
        ]
    )


@pytest.mark.parametrize("case", CASES)
def test_histories_with_commands_have_the_same_pages_either_way(case: str) -> None:
    pipeline, inputs = CASES[case]
    for seed in range(12):
        rng = Random(f"coalesced {case} {seed}")
        hosts = [
            PagesHost(pipeline, (SCHEMA,) * inputs, buckets=4, tasks=3, progress=way) for way in ("direct", "coalesced")
        ]
        numbers: dict[str, int] = {}
        for batch in range(10):
            now = 25 * (batch + 1)
            frames = [random_rows(rng, now, numbers) for _ in range(inputs)]
            command = random_command(rng, now, named=inputs > 1)
            outputs = []
            for host in hosts:
                if command is not None:
                    host.command = command
                rows = frames if inputs > 1 else frames[0]
                outputs.append(host.bundle(rows, now=now, watermark=None, polled=True))
            first, other = ([rows_of(came.panes), *map(rows_of, (*came.late, *came.dead))] for came in outputs)
            assert first == other, (seed, batch)
            assert outputs[0].watermark == outputs[1].watermark and outputs[0].counts == outputs[1].counts
            assert hosts[0].details == hosts[1].details, (seed, batch)
        drained = [host.bundle(_none(inputs), now=1_000, watermark=2**63 - 1, polled=True) for host in hosts]
        assert rows_of(drained[0].panes) == rows_of(drained[1].panes)


def _none(inputs: int) -> Any:
    empty = pl.DataFrame(schema=SCHEMA)
    return [empty] * inputs if inputs > 1 else empty


def test_a_lowered_watermark_reaches_every_bucket() -> None:
    rows = pl.DataFrame([{"id": i, "t": 100, "device": "a", "n": i + 1} for i in range(8)], schema=SCHEMA)
    late = rows.with_columns(t=pl.lit(60), n=pl.col("n") + 8)
    lowered = {"do": "lower_watermark", "watermark": 50}
    outputs = []
    for way in ("direct", "coalesced"):
        host = PagesHost(WINDOWS, SCHEMA, buckets=4, knows=False, progress=way)
        host.bundle(rows, now=200, watermark=None, polled=True)
        host.command = lowered
        outputs.append(host.bundle(late, now=201, watermark=None, polled=True))
    assert rows_of(outputs[0].panes) == rows_of(outputs[1].panes)
    assert [came.counts.late for came in outputs] == [0, 0] and outputs[0].watermark == outputs[1].watermark


def on_both_ways(pipeline: ev.Pipeline, schema: Any, bundles: Any) -> list[tuple[int, list[str]]]:
    """The watermark and the panes after each bundle, which are the same whichever way progress takes.

    A bundle is a command or None, and the rows of the inputs.
    """
    outputs = []
    for way in ("direct", "coalesced"):
        host = PagesHost(pipeline, schema, buckets=4, tasks=2, progress=way)
        came = []
        for number, (command, rows) in enumerate(bundles):
            host.command = command
            came.append(host.bundle(rows, now=100 * (number + 1), watermark=None, polled=True))
        outputs.append([(bundle.watermark, rows_of(bundle.panes)) for bundle in came])
    assert outputs[0] == outputs[1]
    return outputs[0]


@pytest.mark.parametrize("case", ["interval join", "union"])
def test_an_input_that_has_ended_holds_no_watermark_back(case: str) -> None:
    pipeline, _ = CASES[case]
    left, right = (
        pl.DataFrame([{"id": i, "t": t, "device": "a", "n": 1} for i in range(8)], schema=SCHEMA) for t in (20, 90)
    )
    none = pl.DataFrame(schema=SCHEMA)
    name = "left" if case == "union" else pipeline.plan.edges[0].name
    waiting, ended = on_both_ways(
        pipeline, (SCHEMA,) * 2, [(None, [left, right]), ({"do": "end", "input": name}, [none, none])]
    )
    assert waiting[0] == 20 - 5 and ended[0] == 90 - 5, "the watermark follows the other input alone"
    assert ended[1], "which completes what the ended input held back"


def test_the_cuts_of_a_stream_move_the_watermark_once_all_buckets_are_read() -> None:
    address = "sqlite:///shop.db#orders"
    watermark = ev.noted(address)
    windows = ev.stream(time="t", key="id", watermark=watermark).window(ev.tumbling("10 us")).agg(rows=ev.count())
    schema = {"id": pl.Int64(), "t": pl.Int64(), "_segment": pl.Int64(), "_offset": pl.Int64(), "_mark": pl.Int64()}

    def rows(*offsets: int) -> pl.DataFrame:
        places = [{"id": n, "t": n, "_segment": n % 2, "_offset": n // 2, "_mark": 0} for n in offsets]
        return pl.DataFrame(places, schema=schema)

    def cut(number: int, time: int, **reached: int) -> dict[str, Any]:
        identity = watermark.generator.identity  # type: ignore[attr-defined]
        offsets = {name.removeprefix("s"): offset for name, offset in reached.items()}
        return {"do": "cut", "stream": identity, "number": number, "time": time, "reached": offsets}

    came = on_both_ways(
        windows,
        schema,
        [
            (cut(1, 10, s0=5, s1=5), rows(*range(9))),  # offset 4 of segment 1 is missing
            (None, rows(9)),
            (cut(2, 20, s0=10, s1=10), rows(*range(10, 19))),
            (cut(3, 30, s0=10, s1=10), rows(19)),
        ],
    )
    assert [time for time, _ in came] == [MIN, 10, 10, 30]
    assert [len(panes) for _, panes in came] == [0, 10, 0, 10]


def sent(progress: Progress, tasks: int, buckets: int) -> list[ShufflePage]:
    """The pages of tasks whose rows are of one key."""
    stage = stage_of(WINDOWS, progress, buckets)
    rows = pl.DataFrame([{"id": 1, "t": 100, "device": "a", "n": 1}], schema=SCHEMA)
    return [entry for task in range(tasks) for entry in stamp_to_pages(stage, rows, 200, page.sequence(task, 0), MIN)]


def test_summaries_are_sent_once_and_not_to_every_bucket() -> None:
    assert len(sent("direct", tasks=5, buckets=40)) == 5 * 40
    pages = sent("coalesced", tasks=5, buckets=40)
    summaries = [entry for entry in pages if entry.kind == page.SUMMARY]
    assert len(summaries) == 5 and {summary.bucket for summary in summaries} == {0}
    assert len(pages) <= 5 * 3  # the summary, the rows of the key, and the counts


def test_only_one_place_stores_origins_and_state_moves_with_them() -> None:
    rows = pl.DataFrame(
        [{"id": i, "t": 100 + i, "device": f"device {i:04}", "n": 1} for i in range(2_000)], schema=SCHEMA
    )
    stage = stage_of(WINDOWS, "coalesced", 4)
    coalesced, direct = Buckets(stage), Buckets(stage_of(WINDOWS, "direct", 4))
    for operator in (coalesced, direct):
        operator.step(list(stamp_to_pages(operator.stage, rows, 200, 0, MIN)))
    assert coalesced.tracker is not None
    assert all(state.tracker.metrics().origins == 0 for state in coalesced.states.values())
    assert coalesced.tracker.state.tracker.metrics().origins == 2_000
    moved = redistribute(coalesced.stored(), 2, split_rows, tracker=coalesced.stored_tracker())
    expected = redistribute(direct.stored(), 2, split_rows)
    assert moved.tracker is expected.tracker is None
    assert [part.tracker()["origins"].to_list() for part in moved.buckets] == [
        part.tracker()["origins"].to_list() for part in expected.buckets
    ]


def test_a_rescaled_state_has_its_origins_once_from_a_number_of_buckets_on() -> None:
    rows = pl.DataFrame(
        [{"id": i, "t": 100 + i, "device": f"device {i:04}", "n": 1} for i in range(2_000)], schema=SCHEMA
    )
    direct = Buckets(stage_of(WINDOWS, "direct", 4))
    direct.step(list(stamp_to_pages(direct.stage, rows, 200, 0, MIN)))
    before = direct.states[0].tracker
    many = redistribute(direct.stored(), 64, split_rows, coalesces=lambda count: count >= COALESCED_FROM)
    assert many.tracker is not None and len(many.tracker.tracker()["origins"]) == 2_001
    assert {len(bucket.tracker()["origins"]) for bucket in many.buckets} == {1}
    each = redistribute(direct.stored(), 64, split_rows)
    assert 2 * max(len(bucket.head) for bucket in many.buckets) < min(len(bucket.head) for bucket in each.buckets)
    coalesced = direct.restored(many, 0)
    assert {state.tracker.time for state in coalesced.states.values()} == {before.time}
    back = redistribute(coalesced.stored(), 4, split_rows, tracker=coalesced.stored_tracker())
    again = direct.restored(back, 0)
    assert all(state.tracker.metrics() == before.metrics() for state in again.states.values())


def test_a_batch_without_progress_leaves_the_watermark_of_a_bucket() -> None:
    stage = stage_of(WINDOWS, "coalesced", 2)
    operator = Buckets(stage)
    rows = pl.DataFrame([{"id": 1, "t": 100, "device": "a", "n": 1}], schema=SCHEMA)
    operator.step(list(stamp_to_pages(stage, rows, 200, 0, MIN)))
    before = {label: state.watermark for label, state in operator.states.items()}
    operator.step([ShufflePage(label, "late.0", 0, 300) for label in bucket_labels(2)])
    assert {label: state.watermark for label, state in operator.states.items()} == before == dict.fromkeys(before, 95)


def test_plans_that_look_up_single_origins_stay_direct() -> None:
    deduplicated = ev.stream(time="t", key="id", watermark=NUMBERED).deduplicate()
    plan = deduplicated.window(ev.tumbling("10 microseconds")).agg(rows=ev.count()).plan
    assert traits_of(plan).looks_up_origins and default_progress(traits_of(plan), 2_000) == "direct"


def test_progress_is_coalesced_from_a_number_of_buckets_on_where_there_are_origins() -> None:
    many = traits_of(WINDOWS.plan)
    assert default_progress(many, COALESCED_FROM) == "coalesced"
    assert default_progress(many, COALESCED_FROM - 1) == "direct"
    single = traits_of(ev.stream(time="t", key="id").window(ev.tumbling("10 microseconds")).agg(rows=ev.count()).plan)
    assert default_progress(single, COALESCED_FROM) == "direct"
    assert default_progress(single, COALESCED_FROM, sources=COALESCED_FROM) == "coalesced"


def test_one_bucket_reports_the_origins() -> None:
    stage = stage_of(WINDOWS, "coalesced", 3)
    operator = Buckets(stage)
    rows = pl.DataFrame([{"id": 1, "t": 100, "device": "a", "n": 1}], schema=SCHEMA)
    emitted = operator.step(list(stamp_to_pages(stage, rows, 200, 0, MIN)))
    details = [json.loads(page.detail) for page in emitted if page.detail]
    assert [detail["slowest"] for detail in details] == [[["a", 95]]]
    assert not {page.kind for page in emitted} & {*TRACKED, page.REACHED}
