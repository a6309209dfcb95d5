"""Readers of a group share segments, lose them with their lease, and cannot commit what they have lost."""

from __future__ import annotations

import pytest

from eventide.marks import Reader, ReaderGroup, Stream, Writer
from eventide.marks.errors import ReaderReplacedError, SegmentsLostError
from tests.marks.harness import UNANSWERED, Clock, order, orders


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def stream(clock: Clock) -> Stream:
    """Two segments with some events in each."""
    stream = orders(segments=2, clock=clock)
    with Writer(stream, "till", routing_key="shop") as writer:
        writer.append([order(n) for n in range(32)])
    return stream


def read(reader: Reader, rows: int = 10_000) -> list[tuple[int, int]]:
    batch = reader.read(rows)
    return [] if batch is None else batch.frame.select("_segment", "_offset").rows()


def test_two_readers_share_segments_and_events(stream: Stream) -> None:
    first = Reader(stream, reader_id="one")
    assert first.segments == [0, 1]
    second = Reader(stream, reader_id="two")
    mine = read(first)
    theirs = read(second)
    assert (first.segments, second.segments) == ([0], [1])
    assert {segment for segment, _ in mine} == {0} and {segment for segment, _ in theirs} == {1}
    assert len(mine) + len(theirs) == 32


def test_a_segment_that_is_being_read_is_handed_over_after_the_commit(stream: Stream) -> None:
    first = Reader(stream, reader_id="one")
    read(first, rows=20)
    second = Reader(stream, reader_id="two")
    assert {segment for segment, _ in read(first)} == set()  # of segment 1 it reads no more, of 0 there is no more
    assert read(second) == []
    first.commit()
    events = read(second, rows=1)
    assert first.segments == [0] and second.segments == [1]
    assert events == [(1, first.checkpoint()[1])]


def test_a_reader_that_leaves_gives_its_segments_back_at_once(stream: Stream) -> None:
    first, second = Reader(stream, reader_id="one"), Reader(stream, reader_id="two")
    read(first), read(second)
    second.close()
    assert {segment for segment, _ in read(first)} == {1}


def test_a_reader_that_is_silent_loses_its_segments_and_others_continue_at_its_commit(
    stream: Stream, clock: Clock
) -> None:
    first, second = Reader(stream, reader_id="one"), Reader(stream, reader_id="two", reader_lease="10 seconds")
    read(first), read(second, rows=3)
    second.commit()
    read(second, rows=3)
    clock.now += 9_999_999
    assert read(first) == []
    clock.now += 1
    assert read(first, rows=1) == [(1, 3)]


def test_every_call_prolongs_the_lease(stream: Stream, clock: Clock) -> None:
    first, second = Reader(stream, reader_id="one", reader_lease="10 seconds"), Reader(stream, reader_id="two")
    for _ in range(5):
        clock.now += 9_000_000
        first.heartbeat()
        read(second)
    assert first.segments == [0]


def test_a_reader_that_died_before_the_clock_was_set_back_keeps_nothing(stream: Stream, clock: Clock) -> None:
    Reader(stream, reader_id="dead", reader_lease="10 seconds")
    first = Reader(stream, reader_id="one", reader_lease="10 seconds")
    clock.now -= 3_600_000_000
    first.heartbeat()
    assert first.segments == [0, 1]
    clock.now += 9_000_000
    Reader(stream, reader_id="two").heartbeat()
    assert len(ReaderGroup(stream).readers()) == 2  # the live readers reported on the new clock


def test_a_commit_of_what_was_lost_is_rejected_for_that_segment_only(stream: Stream, clock: Clock) -> None:
    first = Reader(stream, reader_id="one", reader_lease="10 seconds")
    read(first)
    clock.now += 10_000_000
    second = Reader(stream, reader_id="two")
    assert second.segments == [0, 1]
    read(second, rows=1)
    with pytest.raises(SegmentsLostError, match=r"'one'.*has lost segments 0, 1"):
        first.commit()
    assert ReaderGroup(stream).checkpoint() == {0: 0, 1: 0}
    second.commit()
    first.commit()  # it was notified once; it starts again with its new segments
    assert read(first, rows=1) == [(1, 0)]


def test_what_a_reader_still_holds_is_committed_when_it_has_lost_the_rest(stream: Stream, clock: Clock) -> None:
    first = Reader(stream, reader_id="one")
    read(first)
    group = ReaderGroup(stream)
    group.update(lambda state: type(state)(**{**vars(state), "assignment": {0: state.last_member}}))
    with pytest.raises(SegmentsLostError, match="has lost segment 1:"):
        first.commit()
    lengths = stream.store.lengths("orders")
    assert group.checkpoint() == {0: lengths[0], 1: 0}


def test_a_segment_that_was_lost_and_is_taken_again_is_read_from_the_commit_of_the_other(
    stream: Stream, clock: Clock
) -> None:
    first = Reader(stream, reader_id="one", reader_lease="10 seconds")
    read(first)
    clock.now += 10_000_000
    with Reader(stream, reader_id="two") as second:
        read(second, rows=1)
        second.commit()
    assert read(first, rows=1) == [(0, 1)]
    with pytest.raises(SegmentsLostError):
        first.commit()
    assert read(first, rows=1) == [(1, 0)]


def test_another_reader_of_the_same_id_takes_over_and_the_first_one_must_stop(stream: Stream) -> None:
    first = Reader(stream, reader_id="one")
    read(first)
    second = Reader(stream, reader_id="one")
    assert second.segments == [0, 1]
    with pytest.raises(ReaderReplacedError, match="Another reader 'one'"):
        first.commit()
    first.close()
    assert len(read(second)) == 32


def test_a_lost_race_is_run_again(stream: Stream) -> None:
    """Two changes at once: the slower one is made on top of the faster one."""
    group = ReaderGroup(stream)
    Reader(stream, reader_id="one").close()
    raced = []

    def slow(state: object) -> object:
        if not raced:
            raced.append(1)
            Reader(stream, reader_id="fast")
        return state.join("slow", until=10**18)[0]  # type: ignore[attr-defined]

    group.update(slow)  # type: ignore[arg-type]
    assert set(group.readers()) == {"fast", "slow"}


def test_a_commit_whose_answer_was_lost_can_be_repeated(stream: Stream) -> None:
    first = Reader(stream, reader_id="one")
    read(first)
    stream.store.lose("put_group")  # type: ignore[attr-defined]
    with pytest.raises(UNANSWERED):
        first.commit()
    first.commit()
    assert first.checkpoint() == stream.store.lengths("orders")


def test_groups_do_not_know_of_each_other(stream: Stream) -> None:
    assert len(read(Reader(stream, "billing"))) == len(read(Reader(stream, "shipping"))) == 32
