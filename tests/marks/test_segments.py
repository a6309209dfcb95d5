"""Segments and cuts, against every cut there is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventide.errors import PlanError
from eventide.marks.segments import Segments, segments_from_json, segments_to_json
from tests.marks.cases import before, cuts, histories

HALVES = [(0.0, 0.5), (0.5, 1.0)]


@st.composite
def positions(draw: st.DrawFn) -> tuple[Segments, dict[int, int]]:
    segments = draw(histories(most=6))
    numbers = st.integers(0, len(segments.all) - 1)
    return segments, draw(st.dictionaries(numbers, st.integers(0, 2), max_size=4))


@given(positions())
def test_the_least_cut_is_before_every_other_cut_that_holds_the_position(drawn: Any) -> None:
    segments, position = drawn
    least = segments.least_cut(position)
    must = before(segments, position)
    holding = [cut for cut in cuts(segments, 3) if before(segments, cut) >= must]
    assert least in holding
    assert all(before(segments, least) <= before(segments, cut) for cut in holding)


@given(histories(most=5), st.data())
def test_a_cut_is_at_most_another_if_all_before_it_is_before_the_other(segments: Segments, data: Any) -> None:
    every = list(cuts(segments, 2))
    cut, other = data.draw(st.sampled_from(every)), data.draw(st.sampled_from(every))
    assert segments.is_at_most(cut, other) == (before(segments, cut) <= before(segments, other))


@given(histories(most=5), st.data())
def test_at_most_is_a_partial_order(segments: Segments, data: Any) -> None:
    first, second, third = (data.draw(st.sampled_from(list(cuts(segments, 2)))) for _ in range(3))
    assert segments.is_at_most(first, first)
    if segments.is_at_most(first, second) and segments.is_at_most(second, first):
        assert first == second
    if segments.is_at_most(first, second) and segments.is_at_most(second, third):
        assert segments.is_at_most(first, third)


@given(positions())
def test_exactly_the_positions_that_cover_all_keys_once_are_cuts(drawn: Any) -> None:
    segments, position = drawn
    assert segments.is_cut(position) == (position in list(cuts(segments, 3)))


@given(histories(), st.lists(st.floats(0, 1, exclude_max=True), min_size=1))
def test_each_key_goes_to_the_one_open_segment_with_its_range(segments: Segments, points: list[float]) -> None:
    for point, number in zip(points, segments.route(np.array(points)).tolist(), strict=True):
        assert [segment.number for segment in segments.open if segment.low <= point < segment.high] == [number]


@given(histories())
def test_open_segments_cover_all_keys_once(segments: Segments) -> None:
    assert {segment.number: 0 for segment in segments.open} in list(cuts(segments, 1))


@given(histories())
def test_segments_come_back_from_json(segments: Segments) -> None:
    assert segments_from_json(segments_to_json(segments)) == segments


def test_successors_follow_the_segments_whose_keys_they_share() -> None:
    segments = Segments.even(2).scaled([0, 1], [(0.0, 0.25), (0.25, 1.0)])
    assert [segment.predecessors for segment in segments.all] == [(), (), (0,), (0, 1)]
    assert segments.successors(0) == (2, 3)
    assert segments.epoch == 1


def test_a_cut_must_be_read_to_its_offsets_and_to_the_end_of_what_is_before_it() -> None:
    segments = Segments.even(1).scaled([0], HALVES)
    assert segments.must_be_read({1: 3, 2: 0}, {0: 7, 1: 9, 2: 9}) == {0: 7, 1: 3, 2: 0}


@pytest.mark.parametrize(
    ("seal", "ranges", "message"),
    [
        ([7], HALVES, "no segment 7"),
        ([0], HALVES, "Segment 0 is sealed"),
        ([], HALVES, "must cover the same keys"),
        ([1], [(0.0, 0.25)], "must cover the same keys"),
        ([1], [(0.0, 0.25), (0.3, 0.5)], "must cover the same keys"),
        ([1], [(0.0, 0.75)], "must cover the same keys"),
        ([1], [(0.0, 0.3), (0.25, 0.5)], "overlaps"),
        ([1], [(0.0, 0.5), (0.5, 0.5)], "not a range"),
        ([2], [(0.5, 1.5)], "not a range"),
        ([1], [(0.5, 0.0)], "not a range"),
    ],
)
def test_scaling_is_rejected(seal: list[int], ranges: list[tuple[float, float]], message: str) -> None:
    segments = Segments.even(1).scaled([0], HALVES)
    with pytest.raises(PlanError, match=message):
        segments.scaled(seal, ranges)


def test_a_stream_that_has_ended_is_not_scaled() -> None:
    with pytest.raises(PlanError, match="sealed"):
        Segments.even(1).ended().scaled([0], HALVES)
