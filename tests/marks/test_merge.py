"""Notes become marks: the rules one by one, and then the promise of a mark over random histories."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from eventide.errors import PlanError
from eventide.marks.mark import Mark, Note, NoteColumns
from eventide.marks.merge import MergeResult, merge_notes
from eventide.marks.segments import Segments
from eventide.marks.stores.memory import MemoryStore
from eventide.marks.stores.store import Config, Part, StreamInfo, WriterHandle
from eventide.time import MAX
from tests.effort import examples
from tests.marks.cases import before, cuts, scalings

TIMEOUT, PERIOD = 60, 5
CONFIG = Config(schema=pa.schema({"n": pa.int64()}), segments=2, writer_timeout=TIMEOUT, mark_every=PERIOD)
LENGTHS = {0: 100, 1: 100}


def merge(
    notes: list[Note], last: Mark | None = None, *, now: int = 10, segments: Segments | None = None
) -> MergeResult:
    info = StreamInfo("orders", 0, CONFIG, segments or Segments.even(2))
    return merge_notes(info, last, NoteColumns.from_notes(notes), LENGTHS, now)


def test_a_mark_has_the_least_time_the_greatest_time_and_the_furthest_position() -> None:
    result = merge([Note("a", 7, {0: 5}, 10), Note("b", 9, {0: 3, 1: 2}, 10)])
    assert result == MergeResult(Mark(1, 7, 9, {0: 5, 1: 2}, 10), [])


def test_without_notes_there_is_no_mark() -> None:
    assert merge([]) == MergeResult(None, [])


def test_a_new_stream_waits_for_its_writers() -> None:
    notes = [Note("a", 7, {0: 5}, 1)]
    assert merge(notes, now=PERIOD - 1).mark is None
    assert merge(notes, now=PERIOD).mark is not None


def test_a_stream_that_is_older_than_the_clock_says_does_not_wait() -> None:
    assert merge([Note("a", 7, {0: 5}, 1)], now=-1).mark is not None


def test_a_live_writer_at_the_time_of_the_last_mark_holds_the_next_one_back() -> None:
    last = Mark(1, 7, 9, {0: 5, 1: 2}, 10)
    ahead = Note("b", 20, {1: 9}, 10)
    assert merge([Note("a", 7, {0: 8}, 10), ahead], last).mark is None
    assert merge([Note("a", 8, {0: 8}, 10), ahead], last).mark == Mark(2, 8, 20, {0: 8, 1: 9}, 10)


def test_a_silent_writer_holds_nothing_back_but_its_position_and_time_count() -> None:
    silent, live = Note("a", 7, {0: 50}, 10), Note("b", 20, {1: 9}, 10 + TIMEOUT)
    result = merge([silent, live], Mark(1, 7, 9, {0: 5, 1: 2}, 10), now=10 + TIMEOUT)
    assert result == MergeResult(Mark(2, 20, 20, {0: 50, 1: 9}, 70), [("a", 10)])


def test_a_writer_counts_until_its_timeout_is_over() -> None:
    silent, live = Note("a", 7, {0: 50}, 10), Note("b", 20, {1: 9}, 10 + TIMEOUT)
    assert merge([silent, live], Mark(1, 7, 9, {0: 5, 1: 2}, 10), now=9 + TIMEOUT) == MergeResult(None, [])


def test_silent_writers_alone_move_nothing_and_are_kept_until_a_mark_has_them_in_it() -> None:
    note = Note("a", 12, {0: 50}, 10)
    assert merge([note], Mark(1, 7, 9, {0: 5, 1: 2}, 10), now=100) == MergeResult(None, [])


def test_silent_writers_that_the_last_mark_has_in_it_are_forgotten_without_a_new_one() -> None:
    note = Note("a", 9, {0: 5}, 10)
    assert merge([note], Mark(1, 7, 9, {0: 5, 1: 2}, 10), now=100) == MergeResult(None, [("a", 10)])


def test_the_upper_time_does_not_go_back_when_its_writer_is_forgotten() -> None:
    result = merge([Note("a", 8, {0: 6}, 10)], Mark(1, 7, 30, {0: 5, 1: 2}, 10))
    assert result.mark == Mark(2, 8, 30, {0: 6, 1: 2}, 10)


def test_a_closed_writer_holds_nothing_back() -> None:
    result = merge([Note("a", 7, {0: 50}, 10, closed=True), Note("b", 20, {1: 9}, 10)])
    assert result == MergeResult(Mark(1, 20, 20, {0: 50, 1: 9}, 10), [("a", 10)])


def test_what_a_closed_writer_wrote_after_its_note_is_before_the_cut() -> None:
    result = merge([Note("a", 7, {0: 50}, 10, closed=True, written={0: 60}), Note("b", 20, {1: 9}, 10)])
    assert result == MergeResult(Mark(1, 20, 20, {0: 60, 1: 9}, 10), [("a", 10)])


def test_what_a_silent_writer_wrote_after_its_note_is_before_the_cut() -> None:
    silent, live = Note("a", 7, {0: 50}, 10, written={0: 60}), Note("b", 20, {1: 9}, 10 + TIMEOUT)
    result = merge([silent, live], Mark(1, 7, 9, {0: 5, 1: 2}, 10), now=10 + TIMEOUT)
    assert result == MergeResult(Mark(2, 20, 20, {0: 60, 1: 9}, 70), [("a", 10)])


def test_a_closed_writer_that_wrote_beyond_the_last_mark_is_not_forgotten_without_a_new_one() -> None:
    result = merge([Note("a", 7, {0: 5}, 10, closed=True, written={0: 6})], Mark(1, 7, 9, {0: 5, 1: 2}, 10))
    assert result == MergeResult(None, [])


def test_what_a_live_writer_wrote_after_its_note_waits_for_the_next_one() -> None:
    assert merge([Note("a", 7, {0: 50}, 10, written={0: 60})]).mark == Mark(1, 7, 7, {0: 50, 1: 0}, 10)


def test_when_all_are_done_time_is_the_greatest_of_theirs() -> None:
    notes = [Note("a", 7, {0: 50}, 10, closed=True), Note("b", 20, {1: 9}, 10, closed=True)]
    assert merge(notes) == MergeResult(Mark(1, 20, 20, {0: 50, 1: 9}, 10), [("a", 10), ("b", 10)])


def test_a_closed_writer_ahead_of_the_others_is_remembered_until_they_have_come_there_or_are_done() -> None:
    ahead = Note("a", 20, {0: 5}, 10, closed=True)
    first = merge([ahead, Note("b", 7, {1: 9}, 10)])
    assert first == MergeResult(Mark(1, 7, 20, {0: 5, 1: 9}, 10), [])
    done = merge([ahead, Note("b", 8, {1: 9}, 10, closed=True)], first.mark, now=11)
    assert done == MergeResult(Mark(2, 20, 20, {0: 5, 1: 9}, 11), [("a", 10), ("b", 10)])


def test_closed_writers_before_the_last_mark_make_no_new_one() -> None:
    result = merge([Note("a", 7, {0: 5}, 10, closed=True)], Mark(1, 7, 9, {0: 5, 1: 2}, 10))
    assert result == MergeResult(None, [("a", 10)])


def test_a_position_in_a_successor_takes_the_whole_predecessor_into_the_cut() -> None:
    segments = Segments.even(2).scaled([0], [(0.0, 0.25), (0.25, 0.5)])
    info = StreamInfo("orders", 0, CONFIG, segments)
    notes = NoteColumns.from_notes([Note("a", 7, {0: 50}, 10), Note("b", 9, {3: 2}, 10)])
    result = merge_notes(info, Mark(1, 5, 9, {0: 5, 1: 2}, 10), notes, {0: 60, 1: 9, 2: 9, 3: 9}, 10)
    assert result.mark is not None
    assert result.mark.cut == {1: 2, 2: 0, 3: 2}


def test_a_cut_is_never_beyond_the_log() -> None:
    info = StreamInfo("orders", 0, CONFIG, Segments.even(2))
    result = merge_notes(info, None, NoteColumns.from_notes([Note("a", 7, {0: 50}, 10)]), {0: 40, 1: 0}, 10)
    assert result.mark == Mark(1, 7, 7, {0: 40, 1: 0}, 10)


def test_the_end_of_a_stream_is_the_end_of_time_at_once() -> None:
    result = merge([Note("a", 7, {0: 50}, 0)], now=1, segments=Segments.even(2).ended())
    assert result == MergeResult(Mark(1, MAX, MAX, LENGTHS, 1), [("a", 0)])


def test_after_the_end_there_are_no_marks() -> None:
    last = Mark(4, MAX, MAX, LENGTHS, 1)
    assert merge([Note("a", 7, {0: 50}, 0)], last, segments=Segments.even(2).ended()) == MergeResult(None, [("a", 0)])


class Promise(RuleBasedStateMachine):
    """Writers write, stall, close, come back, and have wrong clocks; the stream is scaled; marks keep their promise."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = 1000
        self.store = MemoryStore(clock=lambda: self.clock)
        self.store.create_stream("orders", CONFIG)
        self.handles: dict[str, WriterHandle] = {}
        self.written: dict[str, list[tuple[int, int]]] = {}
        self.noted: dict[str, tuple[int, int, int]] = {}  # how many events, which time, when
        self.done: dict[str, bool] = {}
        self.marks: list[Mark] = []
        self.sequence = 0

    @initialize(names=st.sets(st.sampled_from("abc"), min_size=1))
    def begin(self, names: set[str]) -> None:
        for name in sorted(names):
            self.come(name)

    @rule(name=st.sampled_from("abcd"))
    def come(self, name: str) -> None:
        if name not in self.handles and not self.ended:
            self.handles[name] = self.store.open_writer("orders", name, take_over=True)
            if name in self.known:  # its previous note applies from now on
                count, time, _ = self.noted[name]
                self.noted[name] = count, time, self.clock
                self.done[name] = False

    @precondition(lambda self: self.handles and not self.ended)
    @rule(data=st.data(), rows=st.integers(1, 3))
    def write(self, data: Any, rows: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.handles)))
        segment = data.draw(st.sampled_from(self.store.stream("orders").segments.open)).number
        self.append(name, segment, rows)

    @precondition(lambda self: self.handles and not self.ended)
    @rule(data=st.data(), ahead=st.integers(0, 20), wrong=st.sampled_from([0, 0, 0, 0, 100, -100]))
    def note(self, data: Any, ahead: int, wrong: int) -> None:
        """Time continues from the previous note, or is that of a clock, which may be wrong."""
        name = data.draw(st.sampled_from(sorted(self.handles)))
        self.say(name, self.heard(name, self.clock + wrong) + ahead)

    @precondition(lambda self: self.handles and not self.ended)
    @rule(ahead=st.integers(1, 20), place=st.integers(0, 7), passed=st.sampled_from([1, 1, PERIOD, TIMEOUT]))
    def work(self, ahead: int, place: int, passed: int) -> None:
        """All that are there write, note, and are merged."""
        opened = self.store.stream("orders").segments.open
        for name in sorted(self.handles):
            self.append(name, opened[place % len(opened)].number, 1)
        self.clock += passed
        for name in sorted(self.handles):
            self.say(name, self.heard(name) + ahead)
        self.merge(1)

    @precondition(lambda self: len(self.handles) > 1 or (self.handles and self.marks))
    @rule(data=st.data(), closing=st.booleans())
    def go(self, data: Any, closing: bool) -> None:
        """Closed or dead."""
        name = data.draw(st.sampled_from(sorted(self.handles)))
        handle = self.handles.pop(name)
        if closing:
            self.store.close_writer(handle)
            self.done[name] = True

    @precondition(lambda self: not self.ended)
    @rule(data=st.data())
    def scale(self, data: Any) -> None:
        segments = self.store.stream("orders").segments
        if len(segments.all) < 8:
            self.store.scale("orders", *data.draw(scalings(segments)))

    @precondition(lambda self: len(self.marks) > 3)
    @rule()
    def seal(self) -> None:
        self.store.seal("orders")

    @rule(passed=st.sampled_from([1, 1, 1, PERIOD, TIMEOUT - 1, TIMEOUT]))
    def merge(self, passed: int) -> None:
        self.clock += passed
        last = self.marks[-1] if self.marks else None
        notes, info, known = self.store.note_columns("orders"), self.store.stream("orders"), self.known
        result = merge_notes(info, last, notes, self.store.lengths("orders"), self.clock)
        lease = self.store.acquire("orders", "controller", self.clock + 10**6)
        assert lease is not None
        if result.mark is None:
            self.store.delete_notes(lease, result.obsolete)
            return
        self.store.put_mark(lease, result.mark, obsolete=result.obsolete)
        self.marks.append(result.mark)
        self.keeps_its_promise(result.mark, info.segments, known)
        self.goes_on(result.mark, last, info.segments)

    def heard(self, name: str, otherwise: int | None = None) -> int:
        known = {note.writer: note.time for note in self.store.notes("orders")}
        return known.get(name, self.clock if otherwise is None else otherwise)

    def append(self, name: str, segment: int, rows: int) -> None:
        self.sequence += 1
        end = self.store.append(self.handles[name], self.sequence, [Part(segment, rows, b"")])[segment]
        self.written.setdefault(name, []).extend((segment, place) for place in range(end - rows, end))

    def say(self, name: str, time: int) -> None:
        self.sequence += 1
        self.store.append(self.handles[name], self.sequence, [], note=time)
        self.noted[name] = len(self.written.get(name, [])), time, self.clock
        self.done[name] = False

    @property
    def ended(self) -> bool:
        return self.store.stream("orders").segments.has_ended

    @property
    def live(self) -> list[str]:
        return [name for name, note in self.noted.items() if not self.done[name] and self.clock - note[2] < TIMEOUT]

    @property
    def known(self) -> set[str]:
        """Those who have noted, and are not forgotten."""
        return {note.writer for note in self.store.notes("orders")}

    def keeps_its_promise(self, mark: Mark, segments: Segments, known: set[str]) -> None:
        lengths = self.store.lengths("orders")
        covered = before(segments, mark.cut, max(lengths.values()))
        assert all(offset <= lengths[number] for number, offset in mark.cut.items())
        for name in self.live:
            count, time, _ = self.noted[name]
            assert time >= mark.lower or self.ended
            assert covered >= set(self.written.get(name, [])[:count])
        # Nobody who is done, or was forgotten, had noted a later time, or stood beyond the cut.
        for name, (count, time, _) in self.noted.items():
            assert time <= mark.upper
            assert covered >= set(self.written.get(name, [])[:count]), name
        # Time has passed those of them that were still known: all of their events lie before it.
        for name in known - {*self.live}:
            assert covered >= set(self.written.get(name, [])), name

    def goes_on(self, mark: Mark, last: Mark | None, segments: Segments) -> None:
        assert mark.lower <= mark.upper
        assert dict.fromkeys(mark.cut, 0) in list(cuts(segments, 1))
        if last is not None:
            assert mark.number == last.number + 1
            assert mark.lower > last.lower or mark.lower == MAX
            assert mark.upper >= last.upper
            longest = max(self.store.lengths("orders").values())
            assert before(segments, last.cut, longest) <= before(segments, mark.cut, longest)

    @invariant()
    def time_stands_still_while_a_live_writer_is_behind(self) -> None:
        """What the next merge would do, were it now."""
        if self.marks and not self.ended and any(self.noted[name][1] <= self.marks[-1].lower for name in self.live):
            notes = self.store.note_columns("orders")
            info, lengths = self.store.stream("orders"), self.store.lengths("orders")
            assert merge_notes(info, self.marks[-1], notes, lengths, self.clock).mark is None


TestPromise = Promise.TestCase
TestPromise.settings = settings(max_examples=examples(60), stateful_step_count=60, deadline=None)


def test_a_mark_whose_bounds_are_crossed_cannot_be_made() -> None:
    with pytest.raises(PlanError, match="upper time 4, which is below its lower time 5"):
        Mark(1, 5, 4, {0: 1}, 0)
