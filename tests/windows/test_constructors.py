"""What each constructor accepts, rejects, and shows of itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest

import eventide as ev
from eventide.windows import Sessions, Sliding, Tumbling

DESCRIPTIONS = [
    (lambda: ev.tumbling("10 minutes"), "tumbling 10m"),
    (lambda: ev.tumbling("1 day", offset="6 hours"), "tumbling 1d, offset 6h"),
    (lambda: ev.tumbling(timedelta(seconds=90)), "tumbling 1m 30s"),
    (lambda: ev.sliding("10m", every="1m"), "sliding 10m every 1m"),
    (lambda: ev.sliding("10m", every="1m", offset="20s"), "sliding 10m every 1m, offset 20s"),
    (lambda: ev.cumulate("1h", "1d"), "cumulating by 1h up to 1d"),
    (lambda: ev.cumulate("1h", "1d", offset="6h"), "cumulating by 1h up to 1d, offset 6h"),
    (lambda: ev.calendar("month", tz="Europe/Berlin"), "calendar month, Europe/Berlin"),
    (lambda: ev.calendar("quarter"), "calendar quarter, UTC"),
    (lambda: ev.global_window(), "one global window"),
    (lambda: ev.rows(100), "every 100 rows"),
    (lambda: ev.rows(100, every=10), "100 rows, every 10 rows"),
    (lambda: ev.row_sessions(absent=5), "sessions that end after 5 rows without the key"),
    (lambda: ev.inherit(), "the windows of the panes received"),
    (lambda: ev.sessions("30m"), "sessions with gap 30m"),
    (lambda: ev.sessions("30m", touching="split"), "sessions with gap 30m, split when exactly that far apart"),
    (lambda: ev.sessions("30m", max_duration="4h"), "sessions with gap 30m, at most 4h"),
    (lambda: ev.sessions("patience", max_duration="4h"), "sessions with gap column 'patience', at most 4h"),
]


@pytest.mark.parametrize(("make", "text"), DESCRIPTIONS, ids=[text for _, text in DESCRIPTIONS])
def test_a_window_describes_itself(make: Callable[[], ev.WindowKind], text: str) -> None:
    assert make().describe() == text


REJECTIONS = [
    (lambda: ev.tumbling(10), "size of tumbling()=10 has no unit"),  # type: ignore[arg-type]
    (lambda: ev.tumbling("0s"), "must be longer than zero"),
    (lambda: ev.tumbling("-1s"), "must not be negative"),
    (lambda: ev.tumbling("1 month"), "use calendar('month')"),
    (lambda: ev.tumbling("1 minuet"), "Did you mean 'minute'?"),
    (lambda: ev.sliding("1m", every="0s"), "every of sliding()"),
    (lambda: ev.sliding("0s", every="1s"), "size of sliding()"),
    (lambda: ev.sliding("7 days", every=timedelta(microseconds=1)), "a row would belong to 604800000000 windows"),
    (lambda: ev.cumulate("7m", "1h"), "not a multiple of step"),
    (lambda: ev.cumulate("2h", "1h"), "Swap them"),
    (lambda: ev.cumulate(timedelta(microseconds=1), "1d"), "Start windows less often"),
    (lambda: ev.calendar("fortnight"), "there is no unit 'fortnight'"),  # type: ignore[arg-type]
    (lambda: ev.calendar("moth"), "Did you mean 'month'?"),  # type: ignore[arg-type]
    (lambda: ev.calendar("day", tz="Europe/Berlim"), "Did you mean 'Europe/Berlin'?"),
    (lambda: ev.rows(0), "size=0 is not a number of rows"),
    (lambda: ev.rows(True), "size=True is not a number of rows"),
    (lambda: ev.rows(2.5), "size=2.5 is not a number of rows"),  # type: ignore[arg-type]
    (lambda: ev.rows("1m"), "For windows in time use tumbling() or sliding()"),  # type: ignore[arg-type]
    (lambda: ev.rows(5, every=0), "every=0 is not a number of rows"),
    (lambda: ev.row_sessions(absent=0), "absent=0 is not a number of rows"),
    (lambda: ev.sessions("0s"), "must be longer than zero"),
    (lambda: ev.sessions("30 minuets"), "Did you mean"),
    (lambda: ev.sessions("30m", touching="merged"), "Did you mean 'merge'?"),  # type: ignore[arg-type]
    (lambda: ev.sessions("30m", max_duration="10m"), "max_duration (10m) is shorter than gap (30m)"),
    (lambda: ev.sessions("gap", max_duration="0s"), "must be longer than zero"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "text"), REJECTIONS, ids=[text for _, text in REJECTIONS])
def test_a_window_that_cannot_be_meant_is_rejected(make: Callable[[], object], text: str) -> None:
    with pytest.raises(ev.PlanError, match=re.escape(text)):
        make()


def test_sliding_by_its_own_size_is_tumbling() -> None:
    assert ev.sliding("1m", every="1m", offset="5s") == ev.tumbling("1m", offset="5s")


def test_rows_by_their_own_number_tumble() -> None:
    assert isinstance(ev.rows(5, every=5), Tumbling)
    assert isinstance(ev.rows(5, every=4), Sliding)


def test_offsets_are_taken_modulo_the_window() -> None:
    assert ev.tumbling("1m", offset="-5s") == ev.tumbling("1m", offset="55s") == ev.tumbling("1m", offset="1m 55s")


def test_absent_rows_are_a_gap_one_longer() -> None:
    # Between rows 1 and 4 two have passed without the key: that ends a session, so three apart are two sessions.
    assert ev.row_sessions(absent=2) == Sessions(3, touching="split", axis="rows")


@pytest.mark.parametrize("gap", ["PT5M", "5m", "1 hour 30 minutes"])
def test_a_gap_that_reads_as_a_duration_is_one(gap: str) -> None:
    assert isinstance(ev.sessions(gap).gap, int)


@pytest.mark.parametrize("gap", ["patience", "Pause", "gap_us", "P"])
def test_a_gap_that_reads_as_a_name_is_a_column(gap: str) -> None:
    assert ev.sessions(gap).gap == gap
