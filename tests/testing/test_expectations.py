"""Expectations and panes are paired one to one, so that as many as possible fit."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventide.testing.expectations import is_same, pair
from eventide.testing.rows import Day
from eventide.time import MAX, MIN


def fits(wanted: set[int], came: int) -> bool:
    return came in wanted


def test_an_expectation_that_fits_all_does_not_take_what_another_needs() -> None:
    pairing = pair([{1, 2, 3}, {1, 2}, {1}], [1, 2, 3], fits)
    assert pairing.complete
    assert sorted(came for _, came in pairing.matched) == [1, 2, 3]


def test_what_is_left_is_reported_on_both_sides() -> None:
    pairing = pair([{1}, {1}, {9}], [1, 5], fits)
    assert pairing.matched == [({1}, 1)]
    assert (list(pairing.missing), list(pairing.unexpected)) == ([{1}, {9}], [5])


@given(st.lists(st.sets(st.integers(0, 6)), max_size=6), st.randoms(use_true_random=False))
def test_a_hidden_assignment_is_always_found(more: list[set[int]], shuffled: random.Random) -> None:
    actual = list(range(len(more)))
    expected = [choices | {i} for i, choices in enumerate(more)]
    shuffled.shuffle(expected)
    assert pair(expected, actual, fits).complete


@pytest.mark.parametrize(
    ("wanted", "came", "equal"),
    [
        (1, 1, True), (1, 1.0, True), (1, True, False), (True, 1, False), (None, None, True), (None, 0, False),
        (float("nan"), float("nan"), True), ([1, float("nan")], [1, float("nan")], True), ([1], [1, 2], False),
        ((1, None), (1, None), True), ("a", "a", True), (pytest.approx(0.3), 0.1 + 0.2, True),
    ],
)  # fmt: skip
def test_sameness(wanted: object, came: object, equal: bool) -> None:
    assert is_same(wanted, came) is equal


@given(st.integers(-(2**55), 2**55))
def test_a_day_reads_what_it_writes(us: int) -> None:
    day = Day.of("2026-03-29")
    assert day.read(day.write(us), "it") == us


def test_a_day_knows_its_ends() -> None:
    day = Day.of("2026-03-29")
    assert day.read("24:00", "it") == day.read("2026-03-30", "it")
    assert day.write(day.read("2026-03-30", "it")) == "24:00"
    assert [day.read(end, "it") for end in ("-∞", "+∞", "end", "inf")] == [MIN, MAX, MAX, MAX]
    with pytest.raises(ValueError, match=r"25:00"):
        day.read("25:00", "it")
