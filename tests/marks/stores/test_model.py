"""Random histories against a short model: lists of numbers, one for each segment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from eventide.errors import DataError
from eventide.marks.mark import Note
from eventide.marks.segments import Segments
from eventide.marks.stores.store import Part, Store, WriterHandle
from tests.effort import examples
from tests.marks.stores.cases import SECOND, Clock, addition, config, numbers_in, part

_names = count()
WRITERS = st.sampled_from(["till", "web"])
POINTS = st.lists(st.floats(0, 1, exclude_max=True), max_size=5)


@dataclass
class Writer:
    handle: WriterHandle
    sequence: int = 0
    parts: list[Part] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)
    position: dict[int, int] = field(default_factory=dict)


@dataclass
class Pending:
    writer: str
    deadline: int
    events: list[tuple[int, float]] = field(default_factory=list)
    added: int = 0


class History(RuleBasedStateMachine):
    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__()
        self.store, self.clock = store, clock
        self.name = f"stream {next(_names)}"
        store.create_stream(self.name, config(2))
        self.segments = Segments.even(2)
        self.log: dict[int, list[int]] = {0: [], 1: []}
        self.starts: dict[int, int] = {}
        self.pending: dict[str, Pending] = {}
        self.notes: dict[str, Note] = {}
        self.number = 0
        self.writers = {name: Writer(store.open_writer(self.name, name)) for name in ("till", "web")}

    def routed(self, points: list[float]) -> dict[int, list[int]]:
        """New numbers for points, by segment."""
        numbers: dict[int, list[int]] = {}
        for number in self.segments.route(np.array(points, dtype=np.float64)).tolist():
            self.number += 1
            numbers.setdefault(number, []).append(self.number)
        return numbers

    def written(self, writer: Writer, routed: dict[int, list[int]]) -> dict[int, int]:
        for segment, numbers in routed.items():
            self.log[segment] += numbers
        ends = {segment: len(self.log[segment]) for segment in routed}
        writer.position.update(ends)
        return ends

    @rule(name=WRITERS, points=POINTS, noting=st.booleans())
    def append(self, name: str, points: list[float], noting: bool) -> None:
        writer = self.writers[name]
        routed = self.routed(points)
        writer.sequence += 1
        writer.parts = [part(segment, *numbers) for segment, numbers in routed.items()]
        writer.ends = self.written(writer, routed)
        time = self.clock.time if noting else None
        assert self.store.append(writer.handle, writer.sequence, writer.parts, note=time) == writer.ends
        if noting:
            self.noted(name)

    def noted(self, name: str) -> None:
        self.notes[name] = Note(name, self.clock.time, dict(self.writers[name].position), self.clock.time)

    def without_predecessors(self, note: Note) -> Note:
        """All that is in them is before the position anyway: whether a store still names them is its own affair."""
        past = self.segments.ancestors(note.position)
        kept = {number: offset for number, offset in note.position.items() if number not in past}
        return replace(note, position=kept)

    @rule(name=WRITERS)
    def append_again(self, name: str) -> None:
        writer = self.writers[name]
        if writer.sequence:
            assert self.store.append(writer.handle, writer.sequence, writer.parts) == writer.ends

    @rule(name=WRITERS)
    def take_over(self, name: str) -> None:
        writer = self.writers[name]
        writer.handle = self.store.open_writer(self.name, name, take_over=True)
        assert (writer.handle.sequence, dict(writer.handle.position)) == (writer.sequence, writer.position)
        if name in self.notes:
            self.notes[name] = replace(self.notes[name], at=self.clock.time)

    @rule(data=st.data())
    def scale(self, data: st.DataObject) -> None:
        segment = data.draw(st.sampled_from(self.segments.open))
        neighbour = next((other for other in self.segments.open if other.low == segment.high), None)
        if neighbour is not None and data.draw(st.booleans()):
            change = ([segment.number, neighbour.number], [(segment.low, neighbour.high)])
        else:
            middle = (segment.low + segment.high) / 2
            change = ([segment.number], [(segment.low, middle), (middle, segment.high)])
        self.segments = self.segments.scaled(*change)
        for new in self.segments.all:
            self.log.setdefault(new.number, [])
        assert self.store.scale(self.name, *change) == self.segments

    @rule(name=WRITERS, seconds=st.integers(1, 5))
    def begin(self, name: str, seconds: int) -> None:
        begun = self.store.begin(self.writers[name].handle, timeout=seconds * SECOND)
        self.pending[begun.id] = Pending(name, begun.deadline)

    @precondition(lambda self: self.pending)
    @rule(data=st.data(), points=POINTS.filter(bool), twice=st.booleans())
    def add(self, data: st.DataObject, points: list[float], twice: bool) -> None:
        id_, transaction = self.drawn(data)
        new = [(self.number + place, point) for place, point in enumerate(points, start=1)]
        self.number += len(points)
        for _ in range(1 + twice):
            self.tried(id_, transaction, lambda handle: self.store.add(handle, id_, transaction.added, *addition(*new)))
        transaction.events += new
        transaction.added += 1

    @precondition(lambda self: self.pending)
    @rule(data=st.data(), noting=st.booleans(), twice=st.booleans())
    def commit(self, data: st.DataObject, noting: bool, twice: bool) -> None:
        id_, transaction = self.drawn(data)
        time = self.clock.time if noting else None
        ends = self.tried(id_, transaction, lambda handle: self.store.commit(handle, id_, note=time))
        if ends is not None:
            routed: dict[int, list[int]] = {}
            targets = self.segments.route(
                np.array([point for _, point in transaction.events], dtype=np.float64)
            ).tolist()
            for (number, _), segment in zip(transaction.events, targets, strict=True):
                routed.setdefault(segment, []).append(number)
            assert ends == self.written(self.writers[transaction.writer], routed)
            if noting:
                self.noted(transaction.writer)
            if twice:
                assert self.store.commit(self.writers[transaction.writer].handle, id_, note=time) == ends
        self.pending.pop(id_, None)

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        id_, transaction = self.drawn(data)
        self.store.abort(self.writers[transaction.writer].handle, id_)
        del self.pending[id_]

    def drawn(self, data: st.DataObject) -> tuple[str, Pending]:
        ids = list(self.pending)
        id_ = ids[data.draw(st.integers(0, len(ids) - 1))]
        return id_, self.pending[id_]

    def tried(
        self, id_: str, transaction: Pending, step: Callable[[WriterHandle], dict[int, int] | None]
    ) -> dict[int, int] | None:
        """Executed, or rejected if it is too late."""
        handle = self.writers[transaction.writer].handle
        if self.clock.time < transaction.deadline:
            return step(handle)
        try:
            step(handle)
        except DataError:
            return None
        raise AssertionError("It was too late.")

    @rule(seconds=st.integers(0, 3), sweeping=st.booleans())
    def time_goes_on(self, seconds: int, sweeping: bool) -> None:
        self.clock.time += seconds * SECOND
        if sweeping:
            self.store.expire_transactions()
            self.pending = {
                id_: transaction for id_, transaction in self.pending.items() if self.clock.time < transaction.deadline
            }

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        segment_number = data.draw(st.sampled_from(self.segments.all)).number
        cut = self.segments.least_cut({segment_number: data.draw(st.integers(0, len(self.log[segment_number])))})
        lengths = {number: len(numbers) for number, numbers in self.log.items()}
        for number, offset in self.segments.must_be_read(cut, lengths).items():
            if offset > self.starts.get(number, 0):
                self.starts[number] = offset
        self.store.truncate(self.name, cut)

    @rule(data=st.data())
    def pack(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(self.segments.all)).number
        offset = data.draw(st.integers(0, len(self.log[number])))
        assert offset <= self.store.compact(self.name, number, offset) <= len(self.log[number])

    @invariant()
    def the_store_is_as_the_model(self) -> None:
        info = self.store.stream(self.name)
        assert (info.segments, dict(info.starts)) == (self.segments, self.starts)
        assert self.store.lengths(self.name) == {number: len(numbers) for number, numbers in self.log.items()}
        for number, numbers in self.log.items():
            start = self.starts.get(number, 0)
            assert numbers_in(self.store, self.name, number, start) == numbers[start:]
        for note in self.store.notes(self.name):
            assert dict(note.written) == self.writers[note.writer].position
        notes = {note.writer: self.without_predecessors(note) for note in self.store.notes(self.name)}
        assert notes == {name: self.without_predecessors(note) for name, note in self.notes.items()}


@pytest.mark.usefixtures("often")
def test_a_store_does_what_the_model_does(store: Store, clock: Clock) -> None:
    run_state_machine_as_test(
        lambda: History(store, clock), settings=settings(stateful_step_count=25, max_examples=examples(25))
    )
