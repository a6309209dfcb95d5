"""Segments are shared out evenly, and successors come after all that went before them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventide.errors import DataError
from eventide.marks.reader_group import GroupState, Member, dump_group, load_group, readable_segments
from eventide.marks.segments import Segments


def shared(group: GroupState, rounds: int = 3) -> GroupState:
    """After each reader has looked a few times."""
    for _ in range(rounds):
        for number in group.members:
            group = group.rebalance(number, group.cut)
    return group


def joined(group: GroupState, *names: str) -> GroupState:
    for name in names:
        group, _ = group.join(name, until=100)
    return group


@given(segments=st.integers(1, 12), first=st.integers(1, 6), more=st.integers(0, 6), gone=st.integers(0, 5))
def test_shares_differ_by_one_at_most_and_every_segment_has_a_reader(
    segments: int, first: int, more: int, gone: int
) -> None:
    group = shared(joined(GroupState(dict.fromkeys(range(segments), 0)), *(f"a{n}" for n in range(first))))
    group = shared(joined(group, *(f"b{n}" for n in range(more))))
    group = shared(group.remove(list(group.members)[: min(gone, len(group.members) - 1)]))
    counts = [len(group.segments_of(number)) for number in group.members]
    assert sum(counts) == segments
    assert max(counts) - min(counts) <= 1


def test_a_share_that_is_fair_is_left_alone() -> None:
    group = shared(joined(GroupState(dict.fromkeys(range(5), 0)), "one", "two"))
    assert shared(group) == group


def test_a_newcomer_gets_what_others_have_too_much_and_no_more() -> None:
    group = shared(joined(GroupState(dict.fromkeys(range(4), 0)), "one", "two"))
    after = shared(joined(group, "three"))
    assert [len(after.segments_of(number)) for number in after.members] == [2, 1, 1]
    moved = {segment for segment in range(4) if group.assignment[segment] != after.assignment[segment]}
    assert len(moved) == 1


def test_what_a_reader_is_busy_with_is_not_taken_from_it() -> None:
    group = shared(joined(GroupState({0: 0, 1: 0}), "one"))
    group = joined(group, "two")
    assert group.rebalance(1, group.cut, busy=[0, 1]).segments_of(1) == [0, 1]
    assert group.surplus(1, group.cut, busy=[1]) == [0]
    assert group.rebalance(1, group.cut, busy=[1]).segments_of(1) == [1]


def test_a_reader_whose_lease_has_ended_gives_its_segments_back_unless_it_asks_itself() -> None:
    group = shared(joined(GroupState({0: 0}), "one"))
    assert group.evict_expired(100, except_for=1) == group
    assert group.evict_expired(99, except_for=2) == group
    assert group.evict_expired(100, except_for=2).assignment == {}


def test_a_reader_that_joins_again_takes_the_place_of_its_former_self() -> None:
    group = joined(shared(joined(GroupState({0: 0}), "one")), "one")
    assert (dict(group.members), dict(group.assignment)) == ({2: Member("one", 100)}, {})


def test_successors_take_the_place_of_a_segment_that_was_read_to_its_end() -> None:
    segments = Segments.even(1).scaled([0], [(0, 0.5), (0.5, 1)])
    assert GroupState({0: 4}).advance(segments, {0: 5}).cut == {0: 4}
    assert GroupState({0: 5}).advance(segments, {0: 5}).cut == {1: 0, 2: 0}


def test_a_successor_waits_for_all_of_its_predecessors() -> None:
    segments = Segments.even(2).scaled([0, 1], [(0, 1)])
    group = GroupState({0: 5, 1: 6}).advance(segments, {0: 5, 1: 7})
    assert (group.cut, readable_segments(group.cut, {0: 5, 1: 7})) == ({0: 5, 1: 6}, [1])
    assert GroupState({0: 5, 1: 7}).advance(segments, {0: 5, 1: 7}).cut == {2: 0}


def test_segments_that_were_scaled_together_make_room_together() -> None:
    segments = Segments.even(2).scaled([0, 1], [(0, 0.25), (0.25, 1)])
    assert GroupState({0: 5, 1: 6}).advance(segments, {0: 5, 1: 7}).cut == {0: 5, 1: 6}


def test_segments_that_were_empty_are_passed_at_once_however_many() -> None:
    segments = Segments.even(1)
    for number in range(5):
        segments = segments.scaled([number], [(0, 1)])
    assert GroupState({0: 0}).advance(segments, dict.fromkeys(range(5), 0)).cut == {5: 0}


def test_the_last_segments_of_a_stream_stay() -> None:
    assert GroupState({0: 5}).advance(Segments.even(1).ended(), {0: 5}).cut == {0: 5}


@st.composite
def histories(draw: st.DrawFn) -> Segments:
    segments = Segments.even(draw(st.integers(1, 3)))
    for _ in range(draw(st.integers(0, 5))):
        first = draw(st.integers(0, len(segments.open) - 1))
        chosen = segments.open[first : first + draw(st.integers(1, 3))]
        low, high = chosen[0].low, chosen[-1].high
        bounds = [low, *sorted({low + (high - low) * draw(st.sampled_from([0.25, 0.5, 0.75]))}), high]
        ranges = list(pairwise(bounds)) if draw(st.booleans()) else [(low, high)]
        segments = segments.scaled([segment.number for segment in chosen], ranges)
    return segments


@given(segments=histories(), data=st.data())
def test_the_position_of_a_group_is_always_a_cut_and_never_passes_what_was_not_read(
    segments: Segments, data: st.DataObject
) -> None:
    lengths = {segment.number: data.draw(st.integers(0, 3)) for segment in segments.all}
    ends = {segment.number: lengths[segment.number] for segment in segments.all if segment.sealed}
    read: dict[int, int] = dict.fromkeys(lengths, 0)
    group = GroupState(segments.first)
    while True:
        group = group.advance(segments, ends)
        assert segments.is_cut(group.cut)
        for number in segments.ancestors(group.cut):
            assert read[number] == lengths[number]
        left = [number for number in group.cut if group.cut[number] < lengths[number]]
        if not left:
            break
        number = data.draw(st.sampled_from(left))
        read[number] += 1
        group = group.commit({number: read[number]})
    assert read == lengths
    assert set(group.cut) == {segment.number for segment in segments.open}


@given(segments=histories())
def test_a_group_is_read_back_as_it_was_written(segments: Segments) -> None:
    group = shared(joined(GroupState(segments.least_cut({})), "one", "two")).reset(segments.first)
    group = shared(joined(group, "three"))
    assert load_group("billing", dump_group(group)) == group


def test_a_group_of_another_version_is_rejected() -> None:
    with pytest.raises(DataError, match="format 99"):
        load_group("billing", dump_group(GroupState({0: 0})).replace(b'"format": 1', b'"format": 99'))
