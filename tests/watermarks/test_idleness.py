"""Silence is measured only while the source is polled."""

from eventide.watermarks.idleness import PolledClock


def test_polled_time_counts():
    assert PolledClock(10).tick(25, polled=True).time == 25


def test_time_without_polling_does_not():
    clock = PolledClock(10).tick(100, polled=False).tick(105, polled=True)
    assert (clock.time, clock.now) == (15, 105)


def test_a_clock_that_is_set_back_does_not_advance():
    clock = PolledClock(10).tick(5, polled=True)
    assert (clock.time, clock.tick(12, polled=True).time) == (10, 12)
