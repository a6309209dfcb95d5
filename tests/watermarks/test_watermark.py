"""A watermark is a key and an instant, and nothing else."""

import pytest

from eventide.errors import PlanError
from eventide.time import MAX, MIN
from eventide.watermarks import Done, Idle, Watermark


@pytest.mark.parametrize("key", [-1, 256, True, "0", 1.0, None])
def test_a_key_is_an_integer_from_0_to_255(key):
    with pytest.raises(PlanError, match="from 0 to 255"):
        Watermark(key, 0)


@pytest.mark.parametrize("time", [MAX + 1, MIN - 1, 1.5, "now", True, None])
def test_a_time_is_an_integer_within_64_bits(time):
    with pytest.raises(PlanError, match="not an instant"):
        Watermark(0, time)


def test_the_bounds_are_legal():
    assert (Watermark(255, MAX).time, Watermark(0, MIN).time) == (MAX, MIN)


def test_watermarks_are_values():
    assert Watermark(1, 2) == Watermark(1, 2)
    assert len({Watermark(1, 2), Watermark(1, 2), Idle(), Idle(), Done()}) == 3
