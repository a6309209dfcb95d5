"""Which notes of a writer may follow its previous one."""

from __future__ import annotations

import pytest

from eventide.errors import PlanError
from eventide.marks.mark import Note, advance_note
from eventide.marks.segments import Segments

SEGMENTS = Segments.even(1).scaled([0], [(0.0, 0.5), (0.5, 1.0)])
LENGTHS = {0: 10, 1: 10, 2: 10}


def note_at(time: int, position: dict[int, int], *, at: int = 0, closed: bool = False) -> Note:
    return Note("till", time, position, at, closed)


def next_note(before: Note | None, note: Note) -> Note:
    return advance_note("orders", before, note, SEGMENTS, LENGTHS, {})


def test_the_first_note_is_unchanged() -> None:
    assert next_note(None, note_at(5, {0: 3})) == note_at(5, {0: 3})


def test_the_same_time_may_be_noted_again() -> None:
    assert next_note(note_at(5, {1: 3}), note_at(5, {1: 4}, at=9)) == note_at(5, {1: 4}, at=9)


def test_time_does_not_go_back() -> None:
    with pytest.raises(PlanError, match="does not go back"):
        next_note(note_at(5, {0: 3}), note_at(4, {0: 3}))


def test_a_position_does_not_go_back() -> None:
    with pytest.raises(PlanError, match="has already reached offset 3 in segment 1"):
        next_note(note_at(5, {1: 3}), note_at(6, {1: 2}))


def test_a_position_beyond_the_log_is_rejected() -> None:
    with pytest.raises(PlanError, match="has 10 events; a position at offset 11"):
        next_note(None, note_at(5, {1: 11}))


def test_a_position_in_an_unknown_segment_is_rejected() -> None:
    with pytest.raises(PlanError, match="no segment 7"):
        next_note(None, note_at(5, {7: 0}))


def test_a_segment_that_is_not_named_any_more_stays_where_it_was() -> None:
    assert next_note(note_at(5, {1: 3}), note_at(6, {2: 1})).position == {1: 3, 2: 1}


def test_a_segment_whose_successor_has_been_reached_is_dropped() -> None:
    assert next_note(note_at(5, {0: 3}), note_at(6, {2: 1})).position == {2: 1}


def test_even_a_first_note_names_no_segment_whose_successor_has_been_reached() -> None:
    assert next_note(None, note_at(6, {0: 3, 2: 1})).position == {2: 1}


def test_a_closed_writer_that_notes_again_is_open() -> None:
    assert not next_note(note_at(5, {1: 3}, closed=True), note_at(6, {1: 3})).closed
