"""A watermark that went too far is lowered, where state allows it."""

from __future__ import annotations

import warnings
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.operators.watermark_reset import closed_windows, reset_problem
from eventide.time import MAX, MIN

MINUTE = 60_000_000
FAR = 10**9 * MINUTE  # where a wrong clock is
NO_WINDOWS = pl.DataFrame(schema={"start": pl.Int64, "end": pl.Int64})
KINDS = {
    "tumbling": ev.tumbling("1 minute"),
    "sliding": ev.sliding("2 minutes", every="1 minute"),
    "sessions": ev.sessions("30 seconds"),
    "calendar": ev.calendar("day"),
}


@pytest.fixture(autouse=True)
def late_rows_are_meant() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ev.LateRowsWarning)
        yield


def stream(watermark: Any = None) -> ev.Stream:
    return ev.stream(time="t", watermark=watermark or ev.ascending(max_future_skew=None))


def counting(kind: Any, watermark: Any = None) -> ev.Pipeline:
    return stream(watermark).window(kind).agg(n=ev.count())


def rows(*minutes: float, **columns: Any) -> pl.DataFrame:
    return pl.DataFrame({"t": [int(minute * MINUTE) for minute in minutes], **columns})


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_rows_after_a_repair_count_as_if_the_wrong_row_had_never_arrived(kind: Any) -> None:
    """Of windows that closed by mistake only what comes after is counted; all others are complete."""
    broken = counting(kind).start_local()
    broken.push(rows(3000, FAR / MINUTE), now=0)
    assert broken.push(rows(3001), now=1).counts.late == 1
    broken.lower_watermark(3000 * MINUTE)
    whole = counting(kind).start_local()
    whole.push(rows(3000), now=1)
    for minutes in ([5000, 5000.1], [5003], [4000], [9000]):
        ours, theirs = broken.push(rows(*minutes), now=2), whole.push(rows(*minutes), now=2)
        assert (ours.watermark_us, ours.counts.late) == (theirs.watermark_us, theirs.counts.late)
    since = whole.result.panes.filter(pl.col("window_start").cast(pl.Int64) >= 3003 * MINUTE)
    again = broken.result.panes.filter(
        pl.col("window_start").cast(pl.Int64).is_between(3003 * MINUTE, FAR - 10**4 * MINUTE)
    )
    assert since.height and again.drop("emitted_at").equals(since.drop("emitted_at"))


def test_a_closed_window_opens_again_as_a_new_one() -> None:
    query = counting(KINDS["tumbling"]).start_local()
    assert query.push(rows(5, 5.1, FAR / MINUTE), now=0).panes["n"].to_list() == [2]
    query.lower_watermark(5 * MINUTE)
    panes = query.push(rows(5.2, 6), now=1).panes
    assert panes["n"].to_list() == [1] and panes["pane_index"].to_list() == [0]


def test_an_open_window_keeps_its_rows() -> None:
    query = counting(KINDS["tumbling"]).start_local()
    query.push(rows(100, 50.1), now=0)
    query.push(rows(100.5), now=0)
    query.lower_watermark(50 * MINUTE)
    query.push(rows(50.2), now=1)
    assert query.drain().panes["n"].to_list() == [1, 2]


@pytest.mark.parametrize(
    "watermark",
    [
        ev.ascending(origin="o", max_future_skew=None),
        ev.ascending(origin="o", sequence="n", max_future_skew=None),
        ev.punctuated("t", origin="o", max_future_skew=None),
    ],
    ids=["origins", "sequences", "punctuated"],
)
def test_every_origin_is_lowered_and_continues_from_there(watermark: Any) -> None:
    query = counting(KINDS["tumbling"], watermark).start_local()
    query.push(rows(5, FAR / MINUTE, 6, FAR / MINUTE, o=["a", "a", "b", "b"], n=[1, 2, 1, 2]), now=0)
    query.lower_watermark(5 * MINUTE)
    assert query.push(rows(7, 9, o=["a", "b"], n=[3, 3]), now=1).watermark_us == 7 * MINUTE


def test_a_lowered_watermark_survives_a_restart() -> None:
    pipeline = counting(KINDS["tumbling"])
    query = pipeline.start_local()
    query.push(rows(5, FAR / MINUTE), now=0)
    query.lower_watermark(5 * MINUTE)
    assert pipeline.start_local(saved=query.save()).push(rows(7), now=1).watermark_us == 7 * MINUTE


def test_both_sides_of_a_join_are_lowered() -> None:
    sides = [ev.stream(time="t", key="k", watermark=ev.ascending(max_future_skew=None)) for _ in range(2)]
    query = ev.join(*sides, within="1 minute").start_local()
    keyed = {"k": ["a", "a"]}
    query.push({"left": rows(5, FAR / MINUTE, **keyed), "right": rows(5, FAR / MINUTE, **keyed)}, now=0)
    query.lower_watermark(5 * MINUTE)
    step = query.push({"left": rows(7, k=["a"]), "right": rows(7.5, k=["a"])}, now=1)
    assert step.counts.late == 0 and step.panes.height == 1


def rejected(pipeline: ev.Pipeline, *minutes: float, to: float, drain: bool = False) -> str:
    query = pipeline.start_local()
    query.push(rows(*minutes), now=0)
    if drain:
        query.drain()
    before = query.save()
    with pytest.raises(ev.PlanError) as rejection:
        query.lower_watermark(int(to * MINUTE))
    assert query.save() == before
    return str(rejection.value)


def test_a_watermark_is_not_raised() -> None:
    assert "1970-01-01T00:05:00Z is not below it" in rejected(counting(KINDS["tumbling"]), 5, to=5)


def test_a_drained_stream_has_ended() -> None:
    assert "was drained" in rejected(counting(KINDS["tumbling"]), 5, to=4, drain=True)


def test_windows_that_still_accept_late_rows_cannot_become_incomplete() -> None:
    late = stream().window(ev.tumbling("1 minute")).emit(allowed_lateness="1 hour").agg(n=ev.count())
    assert "windows that are complete, up to 1970-01-01T00:06:00Z" in rejected(late, 5, 10, to=5)
    query = late.start_local()
    query.push(rows(5, 10), now=0)
    query.lower_watermark(6 * MINUTE)  # the window that ended by then stays complete
    assert query.push(rows(5.5), now=1).panes["pane_timing"].to_list() == ["ON_TIME", "LATE"]


def test_windows_that_share_slices_with_open_ones_would_be_emitted_again() -> None:
    assert "share slices with open windows" in rejected(counting(KINDS["sliding"]), 5, 6, to=5)


@pytest.mark.parametrize(("watermark", "reason"), [(ev.processing_time("1s"), "clock"), (ev.noted("x#y"), "noted")])
def test_a_watermark_that_would_rise_again_is_not_lowered(watermark: Any, reason: str) -> None:
    problem = reset_problem(counting(KINDS["tumbling"], watermark).plan, NO_WINDOWS, watermark=9, to=5)
    assert problem is not None and reason in problem


def test_the_watermark_of_a_processor_is_not_lowered() -> None:
    class Echo(ev.Processor):
        def process(self, rows: Any, context: Any) -> None: ...

    plan = stream().process(Echo(), output={"t": pl.Int64}).plan
    assert "the processor 'Echo'" in str(reset_problem(plan, NO_WINDOWS, watermark=9, to=5))


@pytest.mark.parametrize(("watermark", "reason"), [(MAX, "drained"), (MIN, "no watermark is known")])
def test_there_must_be_a_watermark_to_lower(watermark: int, reason: str) -> None:
    problem = reset_problem(counting(KINDS["tumbling"]).plan, NO_WINDOWS, watermark=watermark, to=5)
    assert problem is not None and reason in problem


def minutes_of(kind: Any, **bounds: int) -> list[tuple[float, float]]:
    observed = closed_windows(kind, limit=99, **{name: minute * MINUTE for name, minute in bounds.items()})
    return [(start / MINUTE, end / MINUTE) for start, end in observed]


def test_closed_windows_are_those_that_ended_between_both_watermarks() -> None:
    assert minutes_of(KINDS["tumbling"], after=2, until=4, started_by=99) == [(2, 3), (3, 4)]
    assert minutes_of(KINDS["sliding"], after=2, until=4, started_by=99) == [(1, 3), (2, 4)]


def test_windows_after_the_clock_are_not_listed() -> None:
    assert minutes_of(KINDS["tumbling"], after=2, until=10**9, started_by=3) == [(2, 3), (3, 4)]


def test_no_more_closed_windows_are_listed_than_asked_for() -> None:
    assert len(closed_windows(KINDS["tumbling"], after=0, until=FAR, started_by=FAR, limit=5)) == 5


def test_sessions_have_no_bounds_of_their_own() -> None:
    assert minutes_of(KINDS["sessions"], after=2, until=4, started_by=99) == []
