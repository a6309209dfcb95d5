"""Silence is measured only while the source is polled."""

from eventide.watermarks.clock import PolledClock


def test_polled_time_counts():
    assert PolledClock(10).ticked(25, polled=True).time == 25


def test_time_without_polling_does_not():
    clock = PolledClock(10).ticked(100, polled=False).ticked(105, polled=True)
    assert (clock.time, clock.now) == (15, 105)


def test_a_clock_that_goes_back_stands_still():
    clock = PolledClock(10).ticked(5, polled=True)
    assert (clock.time, clock.ticked(12, polled=True).time) == (10, 12)
