"""Random histories of a group: readers come, stall, die and come again, while the stream is written and scaled."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from eventide.marks import Reader, ReaderGroup, Writer
from eventide.marks.errors import ReaderReplacedError, SegmentsLostError
from tests.marks.harness import SHOPS, Clock, order, orders

NAMES = st.sampled_from(["one", "two", "three"])
LEASE = 10_000_000


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.stream = orders(segments=2, clock=self.clock)
        self.writer = Writer(self.stream, "till", routing_key="shop", batch_rows=4)
        self.readers: dict[str, Reader] = {}
        self.pending: dict[Reader, set[tuple[int, int]]] = {}
        """What a reader has read and not committed."""
        self.delivered: dict[str, list[int]] = {shop: [] for shop in SHOPS}
        """What was seen for the first time, in order."""
        self.committed: set[tuple[int, int]] = set()
        self.cut: dict[int, int] | None = None
        self.count = 0

    @rule(size=st.integers(1, 12))
    def write(self, size: int) -> None:
        for _ in range(size):
            self.writer.write(order(self.count))
            self.count += 1

    @rule(place=st.integers(0, 9), into=st.integers(1, 3))
    def split(self, place: int, into: int) -> None:
        known = self.stream.segments.open
        if len(known) < 6:
            self.stream.split(known[place % len(known)].number, into=into)

    @rule(place=st.integers(0, 9), size=st.integers(2, 3))
    def merge(self, place: int, size: int) -> None:
        known = self.stream.segments.open
        first = place % len(known)
        self.stream.merge(*(segment.number for segment in known[first : first + size]))

    @rule(name=NAMES)
    def come(self, name: str) -> None:
        """Also one that was there: its former self has died, or will find out."""
        self.readers[name] = Reader(self.stream, reader_id=name, reader_lease="10 seconds")

    @precondition(lambda self: self.readers)
    @rule(name=NAMES, rows=st.integers(1, 8))
    def read(self, name: str, rows: int) -> None:
        reader = self.readers.get(name)
        batch = None if reader is None else reader.read(rows)
        if reader is None or batch is None:
            return
        for row in batch.table.to_pylist():
            place = row["_segment"], row["_offset"]
            assert place not in self.committed, "what was committed comes again"
            self.pending.setdefault(reader, set()).add(place)
            seen = self.delivered[row["shop"]]
            if row["n"] not in seen:
                assert row["n"] == (seen[-1] + len(SHOPS) if seen else SHOPS.index(row["shop"])), "out of order"
                seen.append(row["n"])

    @precondition(lambda self: self.readers)
    @rule(name=NAMES)
    def commit(self, name: str) -> None:
        reader = self.readers.get(name)
        if reader is None:
            return
        pending = self.pending.pop(reader, set())
        try:
            reader.commit()
        except SegmentsLostError:
            return
        self.committed |= pending

    @precondition(lambda self: self.readers)
    @rule(name=NAMES)
    def leave(self, name: str) -> None:
        if name in self.readers:
            self.readers.pop(name).close()

    @precondition(lambda self: self.readers)
    @rule(name=NAMES)
    def zombie(self, name: str) -> None:
        """Two of the same id: the first one can do nothing more."""
        if name in self.readers:
            old = self.readers[name]
            self.come(name)
            try:
                old.commit()
            except ReaderReplacedError:
                return
            raise AssertionError("a reader that was replaced could commit")

    @rule(part=st.sampled_from([0.3, 0.7, 1.0]))
    def wait(self, part: float) -> None:
        self.clock.now += int(LEASE * part)

    @invariant()
    def the_position_is_a_cut_that_never_goes_back(self) -> None:
        if self.readers or self.cut is not None:
            cut = ReaderGroup(self.stream).checkpoint()
            assert self.stream.segments.is_cut(cut)
            assert self.cut is None or self.stream.segments.is_at_most(self.cut, cut)
            self.cut = cut

    def teardown(self) -> None:
        self.writer.close()
        self.clock.now += LEASE
        last = self.readers["last"] = Reader(self.stream, reader_id="last")
        done = False
        while not done:
            before = self.cut
            self.read("last", 1000)
            last.commit()
            self.cut = last.checkpoint()
            done = before == self.cut
        assert sorted(n for seen in self.delivered.values() for n in seen) == list(range(self.count))


TestHistories = Histories.TestCase
