"""State that moves between numbers of buckets, at any time, changes no result."""

from __future__ import annotations

from functools import partial
from itertools import cycle
from random import Random
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.spark.shuffle_pages import Progress
from eventide.testing.hosts import LocalHost
from eventide.testing.transcripts import Transcript, run
from tests.effort import SEED, examples
from tests.oracle.histories import FAMILIES, SCHEMA, History, frame_of, pipeline_of, random_histories
from tests.pages.test_histories import as_ordered, rows_of, seen
from tests.pages.test_transcripts import TRANSCRIPTS, transcript_id
from tests.processors.test_processor_histories import KINDS, PUPPET
from tests.processors.test_processor_histories import SCHEMA as PUPPET_SCHEMA
from tests.spark.harness import PagesHost

HISTORIES = examples(40)
_EACH = examples(4)
_PLANS = max(1, HISTORIES // (len(FAMILIES) * _EACH))
_MOVES = (None, None, 1, 2, 3, 5)


def random_progress(rng: Random) -> Progress:
    return rng.choice(["direct", "coalesced"])


def difference(history: History, rng: Random) -> str | None:
    """Return where a history whose state moves differs from one in process."""
    pipeline = pipeline_of(history.spec, history.source)
    local = LocalHost(pipeline, SCHEMA)
    moved = PagesHost(
        pipeline,
        SCHEMA,
        buckets=rng.choice([1, 3]),
        progress=random_progress(rng),
        moves=lambda: rng.choice(_MOVES),
        progress_after=partial(random_progress, rng),
    )
    for number, push in enumerate(history.pushes):
        rows = as_ordered(frame_of(push.rows))
        expected, actual = (
            seen(host.bundle(rows, now=push.now, watermark=push.note, polled=True)) for host in (local, moved)
        )
        if expected != actual:
            return f"bundle {number} of {history!r}\n{expected}\n{actual}"
    return None


@pytest.mark.parametrize("family", FAMILIES)
def test_state_that_moves_gives_what_one_process_gives(family: str) -> None:
    for number in range(_PLANS):
        seed = f"{SEED}/moves/{family}/{number}"
        rng = Random(seed)
        for history in random_histories(rng, family, _EACH):
            mismatch = difference(history, rng)
            assert mismatch is None, f"seed {seed!r}: {mismatch}"


@pytest.mark.long
@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=transcript_id)
def test_every_transcript_holds_while_state_moves(transcript: Transcript) -> None:
    counts, ways = cycle([2, 1, 3]), cycle(["coalesced", "coalesced", "direct"])
    host = partial(PagesHost, buckets=1, moves=lambda: next(counts), progress_after=lambda: next(ways))
    run(transcript, host=host)


ORDERS = {"id": pl.Int64(), "t": pl.Int64(), "price": pl.Int64()}
CLICKS = {"id": pl.Int64(), "t": pl.Int64(), "page": pl.String()}
LAG = ev.bounded_delay("5 microseconds")
STREAMS = (ev.stream(time="t", key="id", watermark=LAG), ev.stream(time="t", key="id", watermark=LAG))
JOINS = {
    "within": ev.join(*STREAMS, within=("-10 microseconds", "4 microseconds"), how="full"),
    "last rows": ev.join(*STREAMS, last=3, keep="20 microseconds"),
    "without repeats": ev.join(
        STREAMS[0].deduplicate("price", within="15 microseconds"),
        STREAMS[1].deduplicate("page", within="15 microseconds"),
        within=("-10 microseconds", "4 microseconds"),
        how="full",
    ),
}


@pytest.mark.parametrize("name", JOINS)
def test_a_join_that_moves_gives_what_one_process_gives(name: str) -> None:
    rng, join = Random(f"{SEED}/join moves/{name}"), JOINS[name]
    for _ in range(max(1, HISTORIES // 4)):
        query = join.start_local({"left": ORDERS, "right": CLICKS})
        ways = partial(random_progress, rng)
        moved = PagesHost(join, (ORDERS, CLICKS), buckets=1, moves=lambda: rng.choice(_MOVES), progress_after=ways)
        for now in range(8):
            times = [now * 4 + rng.randrange(12) for _ in range(12)]
            orders, clicks = (
                [(rng.randrange(4), time, value(time)) for time in times if rng.random() < 0.5]
                for value in (lambda time: time, str)
            )
            frames = [
                pl.DataFrame(rows, schema, orient="row").sort("t", *schema)
                for rows, schema in ((orders, ORDERS), (clicks, CLICKS))
            ]
            step = query.push(dict(zip(("left", "right"), frames, strict=True)), now=now)
            came = moved.bundle(frames, now=now, watermark=None, polled=True)
            assert rows_of(step.panes) == rows_of(came.panes)
            assert rows_of(step.late) == rows_of(came.late[0])


@pytest.mark.parametrize("window", [ev.tumbling("10 us"), ev.sessions("5 us"), ev.rows(3)], ids=lambda w: w.describe())
def test_the_ids_of_rows_move(window: Any) -> None:
    stream = ev.stream(time="t", key="id", watermark=LAG).deduplicate("price", within="12 microseconds")
    pipeline = stream.window(window).agg(n=ev.count(), total=ev.sum("price"))
    rng = Random(f"{SEED}/id moves")
    for _ in range(max(1, HISTORIES // 4)):
        local = LocalHost(pipeline, ORDERS)
        moved = PagesHost(pipeline, ORDERS, buckets=1, moves=lambda: rng.choice(_MOVES))
        for now in range(10):
            rows = [(rng.randrange(4), now * 4 + rng.randrange(12), rng.randrange(3)) for _ in range(rng.randrange(9))]
            frame = pl.DataFrame(rows, ORDERS, orient="row").sort("t", *ORDERS)
            expected, actual = (host.bundle(frame, now=now, watermark=None, polled=True) for host in (local, moved))
            assert rows_of(expected.panes) == rows_of(actual.panes)
            assert [rows_of(frame) for frame in expected.dead] == [rows_of(frame) for frame in actual.dead]


def test_the_state_and_the_timers_of_a_processor_move() -> None:
    rng = Random(f"{SEED}/processor moves")
    for _ in range(max(1, HISTORIES // 4)):
        local = LocalHost(PUPPET, PUPPET_SCHEMA)
        moved = PagesHost(PUPPET, PUPPET_SCHEMA, buckets=1, moves=lambda: rng.choice(_MOVES))
        for now in range(0, 60, 6):
            rows = [
                (now + rng.randrange(9), rng.choice("abc"), rng.choice(KINDS), rng.choice(["once", "again"]), 5)
                for _ in range(rng.randrange(6))
            ]
            frame = pl.DataFrame(rows, PUPPET_SCHEMA, orient="row")
            expected, actual = (host.bundle(frame, now=now, watermark=None, polled=True) for host in (local, moved))
            assert rows_of(expected.panes) == rows_of(actual.panes)
