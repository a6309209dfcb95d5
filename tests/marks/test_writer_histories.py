"""Random histories of a writer: calls that fail before or after they are done, scale events, restarts, transactions."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from eventide.marks import Transaction, Writer
from tests.marks.harness import SHOPS, UNANSWERED, Clock, numbers, order, orders, stored


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.stream = orders(segments=2, clock=self.clock)
        self.writer = self.opened()
        self.count = 0
        self.wanted: list[int] = []
        """The written events, which must be stored in the end in every history."""
        self.open: dict[Transaction, list[int]] = {}
        self.committed: dict[int, list[int]] = {}
        """What came with a transaction, and what came with it."""
        self.noted: list[tuple[int, set[int]]] = []
        """Times that were noted, and what was written before."""

    def opened(self) -> Writer:
        return Writer(self.stream, "till", routing_key="shop", batch_rows=5, take_over=True)

    def numbered(self, size: int) -> list[int]:
        self.count += size
        return list(range(self.count - size, self.count))

    @rule(size=st.integers(1, 8))
    def write(self, size: int) -> None:
        for n in self.numbered(size):
            self.wanted.append(n)
            with suppress(*UNANSWERED):  # it is kept, and sent again
                self.writer.write(order(n))

    @rule(size=st.integers(0, 8))
    def append(self, size: int) -> None:
        rows = self.numbered(size)
        self.wanted += rows
        with suppress(*UNANSWERED):
            self.writer.append([order(n) for n in rows])

    @rule()
    def note(self) -> None:
        if not self.wanted:
            return
        before = set(self.wanted)
        self.clock.now += 1
        try:
            self.writer.note_time(self.clock.now)
        except UNANSWERED:
            return
        self.noted.append((self.clock.now, before))

    @rule(size=st.integers(1, 8))
    def begin(self, size: int) -> None:
        transaction = self.writer.begin()
        rows = self.numbered(size)
        transaction.append([order(n) for n in rows])
        self.open[transaction] = rows

    @rule(timed=st.booleans())
    def commit(self, timed: bool) -> None:
        if not self.open:
            return
        transaction, rows = self.open.popitem()
        self.clock.now += timed
        done = False
        while not done:
            with suppress(*UNANSWERED):
                if transaction.status != "committed":
                    transaction.commit(self.clock.now if timed else None)
                done = True
        self.wanted += rows
        self.committed |= dict.fromkeys(rows, rows)
        if timed:
            self.noted.append((self.clock.now, set(self.wanted)))

    @rule()
    def abort(self) -> None:
        if self.open:
            self.open.popitem()[0].abort()

    @rule(call=st.sampled_from(["append", "note", "commit"]), lost=st.booleans())
    def fail(self, call: str, lost: bool) -> None:
        """The next such call fails: before it does anything, or after it has done everything."""
        (self.stream.store.lose if lost else self.stream.store.fail)(call)  # type: ignore[attr-defined]

    @rule(place=st.integers(0, 9))
    def split(self, place: int) -> None:
        known = self.stream.segments.open
        if len(known) < 6:
            self.stream.split(known[place % len(known)].number)

    @rule(place=st.integers(0, 9))
    def merge(self, place: int) -> None:
        known = self.stream.segments.open
        first = place % len(known)
        self.stream.merge(*(segment.number for segment in known[first : first + 2]))

    @rule()
    def restart(self) -> None:
        """After a flush; else what was not sent would be lost with the process."""
        self.flush()
        self.open.clear()
        self.writer = self.opened()

    def flush(self) -> None:
        for _ in range(100):
            try:
                self.writer.flush()
                return
            except UNANSWERED:
                continue
        raise AssertionError("it never succeeds")

    @invariant()
    def what_was_noted_lies_before_the_position_of_the_note(self) -> None:
        notes = self.stream.store.notes("orders")
        if not notes or not self.noted or notes[0].time != self.noted[-1][0]:
            return
        segments, lengths = self.stream.segments, self.stream.store.lengths("orders")
        must = segments.must_be_read(segments.least_cut(notes[0].position), lengths)
        before = {row["n"] for number, end in must.items() for row in stored(self.stream, number)[:end]}
        assert self.noted[-1][1] <= before

    def teardown(self) -> None:
        self.flush()
        assert sorted(numbers(self.stream)) == sorted(self.wanted)
        rows = stored(self.stream)
        for shop in SHOPS:
            of_shop = [row["n"] for row in rows if row["shop"] == shop]
            plain = [n for n in of_shop if n not in self.committed]
            assert plain == sorted(plain)
            for together in {id(rows): rows for rows in self.committed.values()}.values():
                transacted = [n for n in of_shop if n in together]
                assert transacted == sorted(transacted)
                assert not transacted or of_shop[of_shop.index(transacted[0]) :][: len(transacted)] == transacted


TestHistories = Histories.TestCase
