"""Writers say how far time has come: by hand, or by the clock."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from eventide.errors import PlanError
from eventide.marks import Stream, Writer
from eventide.marks.errors import WriterFencedError
from tests.marks.harness import UNANSWERED, Clock, eventually, numbers, order, orders


def noted(stream: Stream) -> list[tuple[str, int, dict[int, int]]]:
    return [(note.writer, note.time, dict(note.position)) for note in stream.store.notes(stream.name)]


def test_a_note_sends_what_was_written_in_the_same_step() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    writer.write(order(1))
    stream.store.calls.clear()  # type: ignore[attr-defined]
    writer.note_time(50)
    assert stream.store.calls == ["append"]  # type: ignore[attr-defined]
    assert (numbers(stream), noted(stream)) == ([1], [("till", 50, {0: 1})])


def test_a_note_without_new_events_is_at_the_position_of_the_last_ones() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    writer.append([order(1), order(2)])
    Writer(stream, "web").append([order(3)])
    writer.note_time(50)
    assert noted(stream) == [("till", 50, {0: 2})]


def test_the_time_goes_with_the_last_of_several_batches() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    for n in (1, 2):
        writer.write(order(n))
        stream.store.fail("append")  # type: ignore[attr-defined]
        with pytest.raises(UNANSWERED):
            writer.flush()
    writer.note_time(50)
    assert (numbers(stream), noted(stream)) == ([1, 2], [("till", 50, {0: 2})])


@pytest.mark.parametrize("time", [86_400_000_000, "1970-01-02", datetime(1970, 1, 2, tzinfo=UTC)])
def test_time_is_noted_as_microseconds_as_text_or_as_a_datetime(time: int | str | datetime) -> None:
    stream = orders()
    writer = Writer(stream, "till")
    writer.append([order(1)], time=time)
    assert noted(stream) == [("till", 86_400_000_000, {0: 1})]


def test_a_note_before_anything_was_written_is_rejected_and_says_how() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    with pytest.raises(PlanError, match="nothing_written=True"):
        writer.note_time(50)
    writer.note_time(50, nothing_written=True)
    assert noted(stream) == [("till", 50, {})]


def test_what_a_writer_of_the_same_id_wrote_counts_as_written() -> None:
    stream = orders()
    Writer(stream, "till").append([order(1)])
    Writer(stream, "till", take_over=True).note_time(50)
    assert noted(stream) == [("till", 50, {0: 1})]


def test_a_writer_without_an_id_writes_but_cannot_note() -> None:
    stream = orders()
    with Writer(stream) as writer:
        writer.write(order(1))
        with pytest.raises(PlanError, match="has no writer_id"):
            writer.note_time(50)
    assert numbers(stream) == [1]


def test_a_time_in_the_past_is_rejected_and_what_was_written_is_stored() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    writer.append([order(1)], time=50)
    writer.write(order(2))
    with pytest.raises(PlanError, match="does not go back"):
        writer.note_time(49)
    assert (numbers(stream), noted(stream)) == ([1, 2], [("till", 50, {0: 1})])


@pytest.mark.parametrize("time", [2**70, 2**63 - 1, 2**62 + 1, -(2**63)])
def test_a_time_that_no_event_can_have_is_rejected(time: int) -> None:
    stream = orders()
    writer = Writer(stream, "till")
    writer.append([order(1)])
    with pytest.raises(PlanError, match="time to note"):
        writer.note_time(time)
    assert noted(stream) == []


def test_a_note_after_a_scale_event_covers_the_segments_before_and_after() -> None:
    stream = orders(segments=2)
    writer = Writer(stream, "till", routing_key="shop")
    writer.append([order(n) for n in range(8)])
    before = stream.store.lengths("orders")
    stream.split(0)
    writer.write(order(8, next(row["shop"] for row in [order(n) for n in range(8)])))
    writer.note_time(50)
    ((_, _, position),) = noted(stream)
    lengths = stream.store.lengths("orders")
    must = stream.segments.must_be_read(stream.segments.least_cut(position), lengths)
    assert sum(before.values()) == 8
    assert all(must.get(number, 0) >= length for number, length in lengths.items() if length)


def test_the_clock_is_noted_when_something_is_sent_and_again_after_the_interval() -> None:
    clock = Clock()
    stream = orders()
    writer = Writer(stream, "till", note_time="auto", note_margin="0 s", note_every="5 seconds", clock=clock)
    writer.append([order(1)])
    assert noted(stream) == [("till", clock.now, {0: 1})]
    first = clock.now
    clock.now += 4_999_999
    writer.append([order(2)])
    writer.tick()
    assert noted(stream) == [("till", first, {0: 1})]
    clock.now += 1
    writer.tick()
    assert noted(stream) == [("till", clock.now, {0: 2})]


def test_the_clock_is_noted_from_the_start_though_nothing_is_written() -> None:
    clock = Clock()
    stream = orders()
    writer = Writer(stream, "till", note_time="auto", note_margin="0 s", clock=clock)
    assert noted(stream) == [("till", clock.now, {})]
    clock.now += 5_000_000
    writer.tick()
    assert noted(stream) == [("till", clock.now, {})]
    clock.now += 1
    writer.close()
    assert noted(stream) == [("till", clock.now, {})]


def test_a_writer_that_opens_again_notes_the_clock_at_the_position_of_the_one_before() -> None:
    clock = Clock()
    stream = orders()
    with Writer(stream, "till") as before:
        before.append([order(1)])
    Writer(stream, "till", note_time="auto", note_margin="0 s", clock=clock)
    assert noted(stream) == [("till", clock.now, {0: 1})]


def test_a_writer_whose_first_note_fails_gives_its_id_back() -> None:
    stream = orders()
    stream.store.fail("note")  # type: ignore[attr-defined]
    with pytest.raises(UNANSWERED):
        Writer(stream, "till", note_time="auto", clock=Clock())
    Writer(stream, "till", note_time="auto", clock=Clock())


def test_the_clock_is_noted_a_margin_behind_until_the_end() -> None:
    clock = Clock()
    stream = orders(clock=clock)
    opened = clock.now
    writer = Writer(stream, "till", note_time="auto", note_margin="2 seconds", clock=clock)
    assert noted(stream) == [("till", opened - 2_000_000, {})]
    clock.now += 10_000_000
    transaction = writer.begin()
    clock.now += 10_000_000
    writer.append([order(1)])
    assert noted(stream) == [("till", opened + 8_000_000, {0: 1})]
    transaction.commit()
    assert noted(stream) == [("till", opened + 18_000_000, {0: 1})]
    writer.close()
    assert noted(stream) == [("till", opened + 20_000_000, {0: 1})]


def test_the_margin_is_a_second_unless_another_one_is_chosen() -> None:
    clock = Clock()
    stream = orders()
    Writer(stream, "till", note_time="auto", clock=clock)
    assert noted(stream) == [("till", clock.now - 1_000_000, {})]


def test_the_clock_is_noted_with_all_that_was_written_before() -> None:
    stream = orders()
    writer = Writer(stream, "till", note_time="auto", note_margin="0 s", clock=Clock())
    writer.write(order(1))
    writer.tick()
    assert (numbers(stream), noted(stream)) == ([1], [("till", 1_000_000_000, {0: 1})])


def test_the_clock_is_noted_a_last_time_at_the_end() -> None:
    clock = Clock()
    stream = orders()
    writer = Writer(stream, "till", note_time="auto", note_margin="0 s", clock=clock)
    writer.append([order(1)])
    clock.now += 1
    writer.close()
    (note,) = stream.store.notes("orders")
    assert (note.time, note.closed) == (clock.now, True)


@pytest.mark.parametrize("restarted", [False, True])
def test_time_does_not_advance_while_a_clock_that_was_set_back_catches_up(restarted: bool) -> None:
    clock = Clock()
    stream = orders()
    writer = Writer(stream, "till", note_time="auto", note_margin="0 s", clock=clock)
    writer.append([order(1)])
    first, clock.now = clock.now, clock.now - 60_000_000
    if restarted:
        writer = Writer(stream, "till", note_time="auto", note_margin="0 s", clock=clock, take_over=True)
    writer.append([order(2)])
    assert noted(stream) == [("till", first, {0: 2})]


def test_an_explicit_time_is_rejected_with_a_note_clock() -> None:
    writer = Writer(orders(), "till", note_time="auto", note_margin="0 s", clock=Clock())
    with pytest.raises(PlanError, match="by itself"):
        writer.note_time(50)
    with pytest.raises(PlanError, match="by itself"):
        writer.append([order(1)], time=50)


def test_the_thread_notes_the_clock_until_the_writer_is_closed() -> None:
    stream = orders()
    writer = Writer(stream, "till", note_time="auto", note_margin="0 s", note_every="1 ms")
    writer.append([order(1)])
    before = noted(stream)[0][1]
    eventually(lambda: noted(stream)[0][1] > before)
    writer.close()
    last = noted(stream)
    assert writer._ticker is not None and not writer._ticker._thread.is_alive()
    assert noted(stream) == last


def test_the_thread_survives_a_failure_and_ends_when_the_writer_was_replaced() -> None:
    stream = orders()
    writer = Writer(stream, "till", note_time="auto", note_margin="0 s", note_every="1 ms")
    writer.append([order(1)])
    stream.store.fail("note")  # type: ignore[attr-defined]
    before = noted(stream)[0][1]
    eventually(lambda: noted(stream)[0][1] > before)
    Writer(stream, "till", take_over=True)
    assert writer._ticker is not None
    writer._ticker._thread.join(timeout=10)
    assert not writer._ticker._thread.is_alive()
    with pytest.raises(WriterFencedError):
        writer.append([order(2)])


def test_the_thread_continues_when_the_writer_could_not_be_closed() -> None:
    stream = orders()
    writer = Writer(stream, "till", note_time="auto", note_margin="0 s", note_every="1 ms")
    writer.append([order(1)])
    stream.store.fail("close_writer")  # type: ignore[attr-defined]
    with pytest.raises(UNANSWERED):
        writer.close()
    before = noted(stream)[0][1]
    eventually(lambda: noted(stream)[0][1] > before)
    writer.close()
    assert writer._ticker is not None and not writer._ticker._thread.is_alive()
