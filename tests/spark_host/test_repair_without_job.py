"""Whether the fingerprint in a checkpoint shows that its watermark can be lowered without the job."""

from __future__ import annotations

from typing import Any

import pytest

import eventide as ev
from eventide.plan.fingerprint import fingerprint
from eventide.spark.repair import is_purged_when_complete

DELAYED = ev.bounded_delay("30 seconds")


def facts(window: Any, watermark: ev.Strategy = DELAYED, **emission: Any) -> dict[str, str]:
    windows = ev.stream(time="ts", key="shop", watermark=watermark).window(window)
    return fingerprint((windows.emit(**emission) if emission else windows).agg(n=ev.count()).plan)


@pytest.mark.parametrize("window", [ev.tumbling("1 minute"), ev.calendar("day"), ev.global_window()])
def test_windows_that_leave_state_when_they_are_complete_need_no_job(window: Any) -> None:
    assert is_purged_when_complete(facts(window))


def test_other_windows_and_watermarks_need_the_job() -> None:
    minute = ev.tumbling("1 minute")
    assert not is_purged_when_complete(facts(ev.sliding("10 minutes", every="1 minute")))
    assert not is_purged_when_complete(facts(ev.sessions("1 minute")))
    assert not is_purged_when_complete(facts(minute, allowed_lateness="1 hour"))
    assert not is_purged_when_complete(facts(minute, ev.processing_time("1 minute")))
    assert not is_purged_when_complete(facts(minute, ev.bounded_delay("1 second", at_latest="1 hour")))
    assert not is_purged_when_complete({"processor": "Totals"})
