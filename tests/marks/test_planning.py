"""What a batch of Spark reads of a stream: successors after their predecessors, everything once."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from eventide.marks.mark import Mark
from eventide.marks.segments import Segments
from eventide.spark.marks_batches import advance_position, last_passed, ranges_between, sample_numbers, with_successors

SPLIT = Segments.even(1).scaled([0], [(0.0, 0.5), (0.5, 1.0)])


def test_a_segment_that_can_still_grow_keeps_its_place() -> None:
    assert with_successors({0: 5}, Segments.even(1), {0: 5}) == {0: 5}


def test_successors_come_when_their_predecessor_is_done() -> None:
    assert with_successors({0: 4}, SPLIT, {0: 5, 1: 7, 2: 8}) == {0: 4}
    assert with_successors({0: 5}, SPLIT, {0: 5, 1: 7, 2: 8}) == {1: 0, 2: 0}


def test_a_segment_without_events_is_passed_over() -> None:
    twice = SPLIT.scaled([1], [(0.0, 0.25), (0.25, 0.5)])
    assert with_successors({0: 5}, twice, {0: 5, 1: 0, 2: 8, 3: 0, 4: 0}) == {2: 0, 3: 0, 4: 0}


def test_one_of_two_successors_may_come_before_the_other() -> None:
    crossed = Segments.even(2).scaled([0, 1], [(0.0, 0.3), (0.3, 1.0)])
    lengths = {0: 5, 1: 9, 2: 1, 3: 1}
    assert with_successors({0: 5, 1: 3}, crossed, lengths) == {0: 5, 1: 3, 2: 0}
    assert with_successors({0: 5, 1: 9, 2: 1}, crossed, lengths) == {2: 1, 3: 0}


def test_successors_are_not_read_in_the_batch_that_ends_their_predecessor() -> None:
    assert advance_position({0: 0}, SPLIT, {0: 5, 1: 7, 2: 8}) == {0: 5}


def test_without_anything_to_read_the_position_stays() -> None:
    assert advance_position({0: 5}, SPLIT, {0: 5, 1: 0, 2: 0}) == {0: 5}


def test_a_limit_is_shared_and_what_one_does_not_need_the_others_take() -> None:
    assert advance_position({0: 0, 1: 0, 2: 0}, Segments.even(3), {0: 1, 1: 50, 2: 50}, rows=21) == {0: 1, 1: 10, 2: 10}


def test_the_last_passed_mark_is_the_one_before_the_first_that_is_not() -> None:
    marks = [Mark(number, number, number, {0: number * 10}, 0) for number in (1, 2, 3)]
    assert [last_passed(marks, {0: place}, Segments.even(1)) for place in (9, 10, 25, 30)] == [0, 1, 2, 3]


def test_of_many_marks_the_last_is_kept() -> None:
    assert sample_numbers(0, 10, 3) == [2, 6, 10]
    assert sample_numbers(0, 10, 10) == list(range(1, 11))


def test_a_small_limit_does_not_always_go_to_the_same_segments() -> None:
    position, segments = {0: 0, 1: 0}, Segments.even(2)
    for _ in range(20):
        position = advance_position(position, segments, {0: 100, 1: 1000}, rows=1)
    assert position == {0: 10, 1: 10}


@given(data=st.data())
def test_reading_on_reads_every_event_once_and_predecessors_first(data: st.DataObject) -> None:
    segments = Segments.even(data.draw(st.integers(1, 3)))
    for _ in range(data.draw(st.integers(0, 4))):
        olds = data.draw(st.lists(st.sampled_from(segments.open), min_size=1, max_size=2, unique=True))
        olds.sort(key=lambda segment: segment.low)
        if any(lower.high != upper.low for lower, upper in pairwise(olds)):
            continue
        low, high = olds[0].low, olds[-1].high
        inner = data.draw(st.lists(st.sampled_from([low + (high - low) * part / 4 for part in (1, 2, 3)]), unique=True))
        bounds = [low, *sorted(inner), high]
        segments = segments.scaled([segment.number for segment in olds], list(pairwise(bounds)))
    lengths = {segment.number: data.draw(st.integers(0, 5)) for segment in segments.all}
    rows = data.draw(st.sampled_from([None, 1, 3]))
    position, read = dict(segments.first), dict.fromkeys(lengths, 0)
    while (end := advance_position(position, segments, lengths, rows=rows)) != position:
        taken = ranges_between(position, end)
        assert rows is None or sum(until - start for _, start, until in taken) <= rows
        for number, start, until in taken:
            assert start == read[number] < until
            assert all(read[before] == lengths[before] for before in segments.ancestors([number]))
        read |= {number: until for number, _, until in taken}
        position = end
    assert read == lengths
