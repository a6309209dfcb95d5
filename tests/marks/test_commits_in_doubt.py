"""Commits in doubt: nothing is lost, and no wrong time is noted or reported."""

from __future__ import annotations

import pytest

from eventide.errors import DataError, PlanError
from eventide.marks import Stream, Transaction, Writer
from eventide.marks.errors import StoreFailedError, TransactionEndedError
from tests.marks.harness import UNANSWERED, Clock, noted, numbers, order, orders


def unanswered(stream: Stream, writer: Writer, how: str) -> Transaction:
    transaction = writer.begin()
    transaction.append([order(2)])
    getattr(stream.store, how)("commit")
    with pytest.raises(UNANSWERED):
        transaction.commit()
    return transaction


def test_a_note_after_a_commit_whose_answer_was_lost_covers_its_events() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    writer.append([order(1)])
    unanswered(stream, writer, "lose")
    writer.note_time(50)
    assert noted(stream) == [(50, {0: 2})]


def test_a_status_that_says_committed_lets_the_writer_know_where() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    assert unanswered(stream, writer, "lose").status == "committed"
    writer.note_time(50)
    assert noted(stream) == [(50, {0: 1})]


def test_no_time_is_noted_while_a_commit_may_still_come_true() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    writer.append([order(1)])
    transaction = unanswered(stream, writer, "fail")
    with pytest.raises(DataError, match="was not answered"):
        writer.note_time(50)
    transaction.abort()
    writer.note_time(50)
    assert noted(stream) == [(50, {0: 1})]


def test_a_commit_that_is_repeated_with_a_time_notes_it() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    unanswered(stream, writer, "lose").commit(50)
    assert noted(stream) == [(50, {0: 1})]


def test_the_clock_waits_for_a_commit_that_may_still_come_true_until_its_time_is_over() -> None:
    clock = Clock()
    stream = orders(clock=clock)
    writer = Writer(stream, "till", note_time="auto", note_margin="0 s", clock=clock)
    writer.append([order(1)])
    first = clock.now
    unanswered(stream, writer, "fail")
    clock.now += 20_000_000
    writer.tick()
    assert noted(stream) == [(first, {0: 1})]
    clock.now += 10_000_000
    writer.tick()
    assert noted(stream) == [(clock.now, {0: 1})]


def test_a_commit_that_is_repeated_with_a_time_notes_it_even_if_that_note_failed() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    transaction = unanswered(stream, writer, "lose")
    stream.store.fail("note")  # type: ignore[attr-defined]
    with pytest.raises(UNANSWERED):
        transaction.commit(50)
    transaction.commit(50)
    assert noted(stream) == [(50, {0: 1})]


def test_a_commit_that_the_writer_has_learnt_of_meanwhile_still_notes_its_time() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    learnt, asked = unanswered(stream, writer, "lose"), unanswered(stream, writer, "lose")
    writer.note_time(50)
    learnt.commit(60)
    assert noted(stream) == [(60, {0: 2})]
    assert asked.status == "committed"
    asked.commit(70)
    assert noted(stream) == [(70, {0: 2})]


def test_a_commit_that_is_repeated_after_a_later_note_is_harmless() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    transaction = writer.begin()
    transaction.append([order(1)])
    stream.store.lose("commit")  # type: ignore[attr-defined]
    with pytest.raises(UNANSWERED):
        transaction.commit(50)
    writer.note_time(60)
    transaction.commit(50)
    assert noted(stream) == [(60, {0: 1})]


def test_a_refusal_of_the_repetition_says_nothing_of_the_commit_before_it() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    writer.append([order(1)], time=50)
    transaction = unanswered(stream, writer, "fail")
    with pytest.raises(PlanError, match="does not go back"):
        transaction.commit(49)
    with pytest.raises(DataError, match="was not answered"):
        writer.note_time(60)


def test_a_transaction_that_was_committed_is_not_aborted_and_says_so() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    transaction = unanswered(stream, writer, "lose")
    with pytest.raises(TransactionEndedError, match=r"was committed.*Do not write them again"):
        transaction.abort()
    assert (transaction.status, numbers(stream)) == ("committed", [2])


def test_a_block_whose_commit_was_done_though_not_answered_lets_its_error_through() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    with pytest.raises(StoreFailedError) as caught, writer.begin() as transaction:
        transaction.append([order(1)])
        stream.store.lose("commit")  # type: ignore[attr-defined]
        transaction.commit(50)
    assert transaction.status == "committed"
    assert any("was committed" in note for note in caught.value.__notes__)
    writer.note_time(60)
    assert noted(stream) == [(60, {0: 1})]


def test_a_commit_that_was_done_is_not_taken_for_one_that_came_too_late() -> None:
    clock = Clock()
    stream = orders(clock=clock)
    writer = Writer(stream, "till", note_time="auto", note_margin="0 s", clock=clock)
    writer.append([order(1)])
    transaction = unanswered(stream, writer, "lose")
    clock.now += 40_000_000
    writer.tick()
    transaction.commit()
    assert (transaction.status, numbers(stream)) == ("committed", [1, 2])


def test_the_clock_does_not_go_past_a_transaction_that_is_about_to_be_committed() -> None:
    """Its timeout is over here, while the store, which heard of it later, would still take it."""
    clock, store_clock = Clock(), Clock()
    stream = orders(clock=store_clock)
    writer = Writer(stream, "till", note_time="auto", note_margin="0 s", note_every="1 minute", clock=clock)
    transaction = writer.begin(timeout="30 seconds")
    transaction.append([order(1)])
    before = clock.now
    clock.now += 35_000_000
    store_clock.now += 29_000_000
    writer.write(order(2))
    with pytest.raises(TransactionEndedError, match="was not committed in time"):
        transaction.commit()
    assert 1 not in numbers(stream)
    assert all(time <= before for time, _ in noted(stream))


def test_what_a_writer_holds_is_sent_before_a_commit_without_a_time_of_its_own() -> None:
    clock = Clock()
    stream = orders(clock=clock)
    writer = Writer(stream, "till", note_time="auto", note_margin="0 s", note_every="1 second", clock=clock)
    writer.append([order(1)])
    transaction = writer.begin()
    transaction.append([order(2)])
    clock.now += 10_000_000
    writer.write(order(3))
    stream.store.fail("commit")  # type: ignore[attr-defined]
    before = noted(stream)
    with pytest.raises(UNANSWERED):
        transaction.commit()
    assert (numbers(stream), noted(stream)) == ([1, 3], before)
