"""Events of a transaction become visible all at once, or never."""

from __future__ import annotations

import pytest

from eventide.errors import DataError, PlanError
from eventide.marks import Writer
from eventide.marks.errors import WriterFencedError
from tests.marks.harness import SHOPS, UNANSWERED, Clock, noted, numbers, order, orders, stored


def test_nothing_is_visible_before_the_commit_and_all_of_it_after() -> None:
    stream = orders()
    transaction = Writer(stream, "till").begin()
    transaction.write(order(1))
    transaction.append([order(2), order(3)])
    transaction.flush()
    assert (numbers(stream), transaction.status) == ([], "open")
    transaction.commit()
    assert (numbers(stream), transaction.status) == ([1, 2, 3], "committed")


def test_nothing_is_visible_after_an_abort() -> None:
    stream = orders()
    transaction = Writer(stream, "till").begin()
    transaction.append([order(1)])
    transaction.abort()
    transaction.abort()
    assert (numbers(stream), transaction.status) == ([], "aborted")
    with pytest.raises(DataError, match="was aborted already"):
        transaction.commit()


def test_a_block_commits_at_its_end_and_aborts_after_an_exception() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    with writer.begin() as good:
        good.write(order(1))
    with pytest.raises(ZeroDivisionError), writer.begin() as bad:
        bad.write(order(2))
        raise ZeroDivisionError
    assert (numbers(stream), good.status, bad.status) == ([1], "committed", "aborted")


def test_a_block_may_end_its_transaction_itself() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    with writer.begin() as transaction:
        transaction.write(order(1))
        transaction.commit(50)
    assert noted(stream) == [(50, {0: 1})]


def test_a_commit_is_harmless_when_its_answer_was_lost() -> None:
    stream = orders()
    transaction = Writer(stream, "till").begin()
    transaction.write(order(1))
    stream.store.lose("add")  # type: ignore[attr-defined]
    with pytest.raises(UNANSWERED):
        transaction.flush()
    stream.store.lose("commit")  # type: ignore[attr-defined]
    with pytest.raises(UNANSWERED):
        transaction.commit(50)
    transaction.commit(50)
    transaction.commit(50)
    assert (numbers(stream), noted(stream)) == ([1], [(50, {0: 1})])


def test_several_transactions_of_a_writer_do_not_mix() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    first, second = writer.begin(), writer.begin()
    first.append([order(1)])
    second.append([order(2)])
    writer.append([order(3)])
    second.commit()
    assert numbers(stream) == [3, 2]
    first.commit()
    assert numbers(stream) == [3, 2, 1]


def test_a_commit_after_the_timeout_is_rejected() -> None:
    clock = Clock()
    stream = orders(clock=clock)
    transaction = Writer(stream, "till").begin(timeout="10 seconds")
    transaction.append([order(1)])
    clock.now += 10_000_000
    assert transaction.status == "aborted"
    with pytest.raises(DataError, match="was not committed in time"):
        transaction.commit()
    assert numbers(stream) == []


def test_a_time_at_the_commit_covers_all_that_the_writer_has_written() -> None:
    stream = orders(segments=2)
    writer = Writer(stream, "till", routing_key="shop")
    writer.append([order(n) for n in range(8)])
    writer.write(order(8))
    transaction = writer.begin()
    transaction.write(order(16))
    transaction.commit(50)
    assert noted(stream) == [(50, stream.store.lengths("orders"))]
    assert len(numbers(stream)) == 10


def test_a_note_after_a_commit_is_at_its_position() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    with writer.begin() as transaction:
        transaction.write(order(1))
    writer.note_time(50)
    assert noted(stream) == [(50, {0: 1})]


def test_a_time_that_goes_back_leaves_the_transaction_open() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    writer.append([order(1)], time=50)
    transaction = writer.begin()
    transaction.write(order(2))
    with pytest.raises(PlanError, match="does not go back"):
        transaction.commit(49)
    transaction.commit(51)
    assert (numbers(stream), noted(stream)) == ([1, 2], [(51, {0: 2})])


def test_an_empty_commit_with_a_time_needs_something_that_was_written() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    with pytest.raises(PlanError, match="has not written"):
        writer.begin().commit(50)
    writer.append([order(1)])
    writer.begin().commit(50)
    assert noted(stream) == [(50, {0: 1})]


def test_a_writer_without_an_id_cannot_commit_a_time() -> None:
    transaction = Writer(orders()).begin()
    transaction.write(order(1))
    with pytest.raises(PlanError, match="has no writer_id"):
        transaction.commit(50)
    transaction.commit()


def test_events_go_to_the_segments_of_the_moment_of_the_commit() -> None:
    stream = orders()
    writer = Writer(stream, "till", routing_key="shop")
    transaction = writer.begin()
    transaction.append([order(n) for n in range(8)])
    stream.split(0)
    transaction.commit()
    writer.append([order(n) for n in range(8, 16)])
    assert stored(stream, 0) == []
    for shop in SHOPS:
        assert [[r["n"] % 8 for r in stored(stream, number) if r["shop"] == shop] for number in (1, 2)] in (
            [[SHOPS.index(shop)] * 2, []],
            [[], [SHOPS.index(shop)] * 2],
        )


def test_a_closed_writer_aborts_what_is_open() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    transaction = writer.begin()
    transaction.append([order(1)])
    writer.close()
    assert (transaction.status, numbers(stream)) == ("aborted", [])


def test_a_transaction_of_a_writer_that_was_replaced_cannot_be_committed() -> None:
    stream = orders()
    transaction = Writer(stream, "till").begin()
    transaction.append([order(1)])
    Writer(stream, "till", take_over=True)
    with pytest.raises(WriterFencedError):
        transaction.commit()
    assert numbers(stream) == []


def test_a_writer_learns_what_became_of_a_transaction_before_its_restart() -> None:
    stream = orders()
    before = Writer(stream, "till")
    done, lost = before.begin(), before.begin()
    done.commit()
    lost.abort()
    writer = Writer(stream, "till", take_over=True)
    assert [writer.transaction_status(id_) for id_ in (done.id, lost.id, "none")] == ["committed", "aborted", "unknown"]


def test_the_clock_is_not_noted_beyond_the_beginning_of_an_open_transaction() -> None:
    clock = Clock()
    stream = orders()
    writer = Writer(stream, "till", note_time="auto", note_margin="0 s", clock=clock)
    writer.append([order(1)])
    began = clock.now = clock.now + 10_000_000
    transaction = writer.begin(timeout="1 minute")
    transaction.append([order(2)])
    clock.now += 10_000_000
    writer.tick()
    assert noted(stream) == [(began, {0: 1})]
    transaction.commit()
    assert noted(stream) == [(clock.now, {0: 2})]


def test_the_clock_advances_without_a_transaction_that_has_expired() -> None:
    clock = Clock()
    stream = orders()
    writer = Writer(stream, "till", note_time="auto", note_margin="0 s", clock=clock)
    writer.append([order(1)])
    transaction = writer.begin(timeout="1 minute")
    transaction.append([order(2)])
    clock.now += 60_000_000
    writer.tick()
    assert noted(stream) == [(clock.now, {0: 1})]
    with pytest.raises(DataError, match="was not committed in time"):
        transaction.commit()


def test_a_time_at_the_commit_is_rejected_with_a_note_clock() -> None:
    transaction = Writer(orders(), "till", note_time="auto", note_margin="0 s", clock=Clock()).begin()
    with pytest.raises(PlanError, match="by itself"):
        transaction.commit(50)


def test_an_empty_transaction_is_committed_with_the_clock_as_well() -> None:
    clock = Clock()
    stream = orders()
    writer = Writer(stream, "till", note_time="auto", note_margin="0 s", clock=clock)
    clock.now += 1_000_000
    writer.begin().commit()
    assert noted(stream) == [(clock.now, {})]
