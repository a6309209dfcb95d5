"""One word for a query, and the sentence that names what it waits for."""

from __future__ import annotations

from typing import Any

import pytest

from eventide.dashboards.health import Health, end_sentence, health_of, watermark_sentence
from eventide.dashboards.history_tables import HistoryTables
from eventide.dashboards.query_view import origins_of
from eventide.spark.metrics import BatchMetrics, to_json
from tests.dashboards.histories import NOON, SECOND, at, batch


def health(*batches: BatchMetrics, running: bool | None = True, **more: Any) -> Health:
    tables = HistoryTables()
    tables.add(map(to_json, batches))
    return health_of(tables.batches, tables.newest.get(0), running=running, **more)


def test_a_query_whose_watermark_follows_the_clock_is_on_time() -> None:
    assert str(health(*map(batch, range(9)))) == "on time: the watermark is 10.0 s behind the clock"


def test_a_lag_far_above_the_usual_one_is_behind() -> None:
    usual = [batch(number) for number in range(20)]
    assert health(*usual, batch(100, watermark=at(41))).word == "on time"
    assert str(health(*usual, batch(100, watermark=at(20)))) == "behind: the watermark is 1m 20s behind the clock"


def test_the_lag_from_which_a_query_is_behind_can_be_named() -> None:
    assert health(batch(0), behind_after=11_000_000).word == "on time"
    assert health(batch(0), behind_after=9_000_000).word == "behind"


def test_hours_of_lag_are_behind_even_if_they_are_usual() -> None:
    assert health(batch(0, watermark=at(-4000)), batch(1, watermark=at(-3999))).word == "behind"


def stalled(seconds: int, **more: Any) -> list[BatchMetrics]:
    return [batch(number, watermark=at(-10), **more) for number in range(seconds)]


def test_a_watermark_that_waits_for_an_origin_while_rows_arrive_is_stuck() -> None:
    origins = {"least_origin": "west", "slowest": (("west", at(-10)),), "origins": 2}
    assert str(health(*stalled(60, **origins))) == "stuck: the watermark waits for origin west for 59.0 s"
    assert health(*stalled(20, **origins)).word == "on time"  # not for long


def test_a_gap_in_sequence_numbers_is_why_a_query_is_stuck() -> None:
    stuck = health(*stalled(60, gaps=1))
    assert stuck.word == "stuck" and stuck.why.startswith("1 run of sequence numbers is missing")


def test_a_watermark_that_does_not_advance_without_rows_is_not_stuck() -> None:
    assert health(*stalled(50, rows=0, kept=0)).word == "on time"


@pytest.mark.parametrize(
    ("running", "more", "word"),
    [(False, {}, "stopped"), (False, {"drained": True, "watermark": None}, "drained"), (None, {}, "on time")],
)
def test_a_query_that_does_not_run_is_stopped_or_drained(running: bool | None, more: Any, word: str) -> None:
    assert health(batch(0), batch(1, **more), running=running).word == word


@pytest.mark.parametrize(
    ("seconds", "unfinished", "expected"),
    [
        (30, None, "on time: the watermark is 30.0 s behind the clock"),
        (30, (9, NOON + 9 * SECOND), "on time: the watermark is 30.0 s behind the clock"),
        (700, None, "waiting: no batch has ended for 11m: no rows arrive, or the source does not answer"),
        (700, (9, NOON + 10 * SECOND), "stuck: batch 9 has been running for 11m"),
    ],
)
def test_a_running_query_whose_last_batch_is_old_says_so(seconds: int, unfinished: Any, expected: str) -> None:
    batches = list(map(batch, range(9)))
    now = NOON + seconds * SECOND
    assert str(health(*batches, now=now, unfinished=unfinished)) == expected
    assert health(*batches, now=now, running=False).word == "stopped"


def test_batches_that_are_far_apart_are_not_missed_soon() -> None:
    hourly = [batch(number * 3600) for number in range(5)]
    assert health(*hourly, now=NOON + 6 * 3600 * SECOND).word == "on time"


def test_rows_without_an_origin_have_no_name_and_hold_the_watermark() -> None:
    slowest = ((None, at(-20)), ("None", at(-10)))
    entry = to_json(batch(0, slowest=slowest, origins=2))
    assert [(row["name"], row["holds"]) for row in origins_of(entry)] == [(None, True), ("None", False)]
    lags = {row["name"]: row["lag"] for row in origins_of(entry)}
    assert watermark_sentence(entry, lags) == "The rows without an origin are 20.0 s behind; everything waits for them."
    idle = to_json(batch(0, slowest=slowest, origins=2, idle_origins=(None,), least_origin="None"))
    assert [(row["name"], row["idle"]) for row in origins_of(idle)] == [(None, True), ("None", False)]


def test_a_failure_is_shown_with_the_first_line_of_its_message_until_the_query_runs_again() -> None:
    failed = health(batch(0), running=False, failure="The table is gone.\n  at line 7")
    assert str(failed) == "failed: The table is gone."
    assert health(batch(0), running=True, failure="The table is gone.").word == "on time"


def test_before_the_first_batch_there_is_nothing_to_judge() -> None:
    assert health().word == "waiting"
    assert health(batch(0, watermark=None)).word == "waiting"


@pytest.mark.parametrize(
    ("more", "lag", "sentence"),
    [
        ({"least_origin": "7", "origins": 9}, 252_000_000, "7 is 4m 12s behind; everything waits for it."),
        ({"least_origin": "7", "origins": 9}, None, "7 has no watermark yet; everything waits for it."),
        ({"least_origin": "7", "origins": 1}, 5_000_000, "7 is the only origin, 5.0 s behind the clock."),
        (
            {"idle_origins": ("7", "8"), "origins": 2},
            0,
            "All 2 origins are idle; the watermark waits for none of them.",
        ),
        ({"drained": True}, 0, "The stream is drained: time has ended, and nothing is waited for."),
    ],
)
def test_the_sentence_names_the_origin_that_holds_the_watermark(more: Any, lag: int | None, sentence: str) -> None:
    entry = to_json(batch(0, slowest=(("7", at(0)), ("8", at(1))), **more))
    assert watermark_sentence(entry, {"7": lag}) == sentence


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"least_origin": "7", "origins": 9}, "7 was 5.0 s behind; everything waited for it."),
        ({"least_origin": "7", "origins": 1}, "7 was the only origin, 5.0 s behind the clock."),
        ({"idle_origins": ("7", "8"), "origins": 2}, "All 2 origins were idle; the watermark waited for none of them."),
        ({"watermark": None}, "No watermark was known yet."),
    ],
)
def test_of_a_query_that_has_stopped_the_sentence_is_about_the_past(more: Any, sentence: str) -> None:
    entry = to_json(batch(0, slowest=(("7", at(0)), ("8", at(1))), **more))
    ended = end_sentence(entry, running=False, failed=False, silent=True)
    shown = watermark_sentence(entry, {"7": 5 * SECOND}, ended=ended)
    assert shown == f"The query has stopped. At its last batch: {sentence}"


@pytest.mark.parametrize(
    ("running", "failed", "silent", "sentence"),
    [
        (True, False, True, ""),
        (None, False, False, ""),
        (None, False, True, "No batch has ended since 2026-03-01 12:00:00 UTC."),
        (False, True, True, "The query has failed."),
        (True, True, False, ""),
    ],
)
def test_only_what_does_not_run_or_is_silent_has_ended(
    running: bool | None, failed: bool, silent: bool, sentence: str
) -> None:
    assert end_sentence(to_json(batch(0)), running=running, failed=failed, silent=silent) == sentence
