"""The histogram of event times counts the rows that entered windows, for any window."""

from __future__ import annotations

import polars as pl
import pytest

import eventide as ev
from eventide.operators.event_times import BINS, event_histogram, late_times
from eventide.operators.factory import operator_of
from eventide.operators.operator import Stamp
from eventide.plan.plan import Plan
from eventide.time import MIN
from eventide.windows import WindowKind

SECOND = 1_000_000
TIMES = [1, 2, 3, 61, 62, 3599, 7201]  # seconds


def stamped(window: WindowKind, seconds: list[int], watermark: int, parts: int = 1) -> tuple[Plan, list[Stamp]]:
    plan = ev.stream(time="ts", watermark="1 minute").window(window).agg(n=ev.count()).plan
    rows = pl.DataFrame({"ts": [second * SECOND for second in seconds]}, schema={"ts": pl.Datetime("us")})
    operator = operator_of(plan, dict(rows.schema))
    size = max(-(-len(seconds) // parts), 1)
    starts = range(0, len(seconds), size)
    return plan, [operator.stamp(rows[start : start + size], 9_000 * SECOND, watermark) for start in starts]


def histogram(window: WindowKind, seconds: list[int], parts: int = 1) -> dict[str, object] | None:
    return event_histogram(*stamped(window, seconds, MIN, parts))


@pytest.mark.parametrize(
    "window",
    [
        ev.tumbling("1 minute"),
        ev.tumbling("1 hour"),
        ev.sliding("10 minutes", every="1 minute"),
        ev.calendar("day"),
        ev.sessions("5 minutes"),
    ],
)
@pytest.mark.parametrize("parts", [1, 3])
def test_every_row_is_in_one_bin_between_the_bounds(window: WindowKind, parts: int) -> None:
    observed = histogram(window, TIMES, parts)
    assert observed is not None
    rows = observed["rows"]
    assert isinstance(rows, list) and sum(rows) == len(TIMES) and 1 <= len(rows) <= BINS
    assert observed["low"] <= 1 * SECOND and observed["high"] > 7201 * SECOND  # type: ignore[operator]


def test_bins_are_as_wide_as_the_slices_where_there_are_few() -> None:
    assert histogram(ev.tumbling("1 minute"), [1, 2, 61, 185]) == {"low": 0, "high": 240 * SECOND, "rows": [2, 1, 0, 1]}


@pytest.mark.parametrize("window", [ev.rows(10), ev.global_window()])
def test_windows_without_slices_of_time_have_none(window: WindowKind) -> None:
    if window.axis == "rows":
        assert histogram(window, TIMES) is None
    else:
        plan = ev.stream(time="ts").window(window).trigger(ev.repeatedly(ev.after_count(2))).agg(n=ev.count()).plan
        rows = pl.DataFrame({"ts": [5 * SECOND]}, schema={"ts": pl.Datetime("us")})
        stamp = operator_of(plan, dict(rows.schema)).stamp(rows, 9_000 * SECOND, MIN)
        assert event_histogram(plan, [stamp]) is None


def test_a_bundle_without_rows_has_none() -> None:
    assert histogram(ev.tumbling("1 minute"), []) is None


@pytest.mark.parametrize("parts", [1, 3])
def test_late_rows_have_their_times_and_are_not_in_the_histogram(parts: int) -> None:
    plan, stamps = stamped(ev.tumbling("1 minute"), [10, 10, 40, 3500, 3600], 3000 * SECOND, parts)
    assert late_times(stamps) == [(10 * SECOND, 2), (40 * SECOND, 1)]
    observed = event_histogram(plan, stamps)
    assert observed is not None and sum(observed["rows"]) == 2


def test_many_late_rows_are_counted_in_few_bins() -> None:
    _, stamps = stamped(ev.tumbling("1 minute"), list(range(2000)), 3000 * SECOND)
    late = late_times(stamps)
    assert len(late) == BINS and sum(rows for _, rows in late) == 2000
    assert late_times(stamped(ev.tumbling("1 minute"), [1, 2], MIN)[1]) == []
