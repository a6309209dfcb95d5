"""Transactions: nothing before the commit, all of it afterwards."""

from __future__ import annotations

import pytest

from eventide.errors import DataError, PlanError
from eventide.marks.mark import Note
from eventide.marks.stores.store import Store, TransactionInfo, WriterHandle
from tests.marks.stores.cases import SECOND, Clock, addition, config, numbers_in, part


@pytest.fixture
def handle(store: Store) -> WriterHandle:
    store.create_stream("orders", config(2))
    return store.open_writer("orders", "till")


@pytest.fixture
def begun(store: Store, handle: WriterHandle) -> TransactionInfo:
    return store.begin(handle, timeout=10 * SECOND)


def test_a_new_transaction_is_open_until_its_deadline(store: Store, begun: TransactionInfo, clock: Clock) -> None:
    assert begun == TransactionInfo("orders", begun.id, "till", "open", clock.time + 10 * SECOND)
    assert store.transactions("orders") == [begun]


def test_nothing_is_visible_before_the_commit_and_all_after(
    store: Store, handle: WriterHandle, begun: TransactionInfo
) -> None:
    store.append(handle, 1, [part(0, 100)])
    store.add(handle, begun.id, 1, *addition((1, 0.1), (2, 0.9), (3, 0.2)))
    store.add(handle, begun.id, 2, *addition((4, 0.3)))
    assert store.lengths("orders") == {0: 1, 1: 0}
    assert store.commit(handle, begun.id) == {0: 4, 1: 1}
    assert numbers_in(store, "orders", 0) == [100, 1, 3, 4] and numbers_in(store, "orders", 1) == [2]
    assert [transaction.status for transaction in store.transactions("orders")] == ["committed"]


def test_parts_come_in_the_order_of_their_numbers_and_once(
    store: Store, handle: WriterHandle, begun: TransactionInfo
) -> None:
    store.add(handle, begun.id, 11, *addition((2, 0.0)))
    store.add(handle, begun.id, 2, *addition((1, 0.0)))
    store.add(handle, begun.id, 2, *addition((9, 0.0)))
    store.commit(handle, begun.id)
    assert numbers_in(store, "orders", 0) == [1, 2]


def test_events_are_routed_by_the_segments_of_the_commit(
    store: Store, handle: WriterHandle, begun: TransactionInfo
) -> None:
    store.add(handle, begun.id, 1, *addition((1, 0.1), (2, 0.4)))
    store.scale("orders", [0], [(0.0, 0.25), (0.25, 0.5)])
    assert store.commit(handle, begun.id) == {2: 1, 3: 1}
    assert numbers_in(store, "orders", 2) == [1] and numbers_in(store, "orders", 3) == [2]


def test_committed_events_have_the_columns_of_the_stream_only(
    store: Store, handle: WriterHandle, begun: TransactionInfo
) -> None:
    from eventide.marks import events

    store.add(handle, begun.id, 1, *addition((1, 0.1)))
    store.commit(handle, begun.id)
    (blob,) = store.read("orders", 0, 0, rows=1)
    assert events.decode(blob.body).column_names == ["n"] and blob.writer == "till"


def test_committing_again_gives_the_same_answer(
    store: Store, handle: WriterHandle, begun: TransactionInfo, clock: Clock
) -> None:
    store.add(handle, begun.id, 1, *addition((1, 0.1)))
    first = store.commit(handle, begun.id, note=5)
    store.append(handle, 1, [part(0, 2)])
    clock.time += 11 * SECOND  # beyond its deadline, which no longer matters
    assert store.commit(handle, begun.id, note=5) == first == {0: 1}
    assert store.lengths("orders") == {0: 2, 1: 0}


def test_a_commit_notes_a_time_at_the_position_that_results(
    store: Store, handle: WriterHandle, begun: TransactionInfo, clock: Clock
) -> None:
    store.append(handle, 1, [part(1, 7)])
    store.add(handle, begun.id, 1, *addition((1, 0.1)))
    store.commit(handle, begun.id, note=500)
    assert store.notes("orders") == [Note("till", 500, {0: 1, 1: 1}, clock.time)]


def test_a_note_that_is_rejected_leaves_the_transaction_open(
    store: Store, handle: WriterHandle, begun: TransactionInfo
) -> None:
    store.note(handle, 900, {})
    store.add(handle, begun.id, 1, *addition((1, 0.1)))
    with pytest.raises(PlanError, match="noted time does not go back"):
        store.commit(handle, begun.id, note=500)
    assert store.lengths("orders") == {0: 0, 1: 0}
    assert store.commit(handle, begun.id, note=900) == {0: 1}


def test_an_empty_transaction_can_be_committed(store: Store, handle: WriterHandle, begun: TransactionInfo) -> None:
    assert store.commit(handle, begun.id, note=5) == {}
    assert [(note.time, dict(note.position)) for note in store.notes("orders")] == [(5, {})]


def test_positions_of_commits_are_the_writers_own(store: Store, handle: WriterHandle, begun: TransactionInfo) -> None:
    store.add(handle, begun.id, 1, *addition((1, 0.1)))
    store.commit(handle, begun.id)
    assert dict(store.open_writer("orders", "till", take_over=True).position) == {0: 1}


def test_an_aborted_transaction_is_forgotten(store: Store, handle: WriterHandle, begun: TransactionInfo) -> None:
    store.add(handle, begun.id, 1, *addition((1, 0.1)))
    store.abort(handle, begun.id)
    store.abort(handle, begun.id)
    with pytest.raises(DataError, match="was aborted"):
        store.commit(handle, begun.id)
    with pytest.raises(DataError, match="was aborted"):
        store.add(handle, begun.id, 2, *addition((1, 0.1)))
    assert store.lengths("orders") == {0: 0, 1: 0}
    assert [transaction.status for transaction in store.transactions("orders")] == ["aborted"]


def test_a_committed_transaction_cannot_be_aborted(store: Store, handle: WriterHandle, begun: TransactionInfo) -> None:
    store.commit(handle, begun.id)
    with pytest.raises(DataError, match="was committed"):
        store.abort(handle, begun.id)


@pytest.mark.parametrize("swept", [False, True])
def test_a_commit_after_the_deadline_is_rejected(
    store: Store, handle: WriterHandle, begun: TransactionInfo, clock: Clock, swept: bool
) -> None:
    store.add(handle, begun.id, 1, *addition((1, 0.1)))
    clock.time = begun.deadline
    if swept:
        assert store.expire_transactions() == 1
    with pytest.raises(DataError, match="was not committed in time"):
        store.commit(handle, begun.id)
    with pytest.raises(DataError, match="was not committed in time"):
        store.add(handle, begun.id, 2, *addition((1, 0.1)))
    store.abort(handle, begun.id)
    assert store.lengths("orders") == {0: 0, 1: 0}


def test_only_what_is_beyond_its_deadline_expires(
    store: Store, handle: WriterHandle, begun: TransactionInfo, clock: Clock
) -> None:
    later = store.begin(handle, timeout=11 * SECOND)
    clock.time = begun.deadline - 1
    assert store.expire_transactions() == 0
    clock.time = begun.deadline
    assert store.expire_transactions() == 1
    assert store.expire_transactions() == 0
    assert {transaction.id: transaction.status for transaction in store.transactions("orders")} == {
        begun.id: "aborted",
        later.id: "open",
    }
    assert store.commit(handle, later.id) == {}


def test_what_ended_long_ago_is_forgotten(
    store: Store, handle: WriterHandle, begun: TransactionInfo, clock: Clock
) -> None:
    store.commit(handle, begun.id)
    clock.time = begun.deadline + 3600 * SECOND
    store.expire_transactions()
    assert store.transactions("orders") == []
    with pytest.raises(DataError, match="is not known"):
        store.commit(handle, begun.id)


def test_a_transaction_of_another_writer_is_not_known(store: Store, begun: TransactionInfo) -> None:
    other = store.open_writer("orders", "web")
    for step in (store.commit, store.abort):
        with pytest.raises(DataError, match="is not known"):
            step(other, begun.id)
    with pytest.raises(DataError, match="is not known"):
        store.add(other, "no such thing", 1, *addition((1, 0.1)))


def test_closing_a_writer_aborts_its_transactions_only(
    store: Store, handle: WriterHandle, begun: TransactionInfo
) -> None:
    other = store.open_writer("orders", "web")
    kept = store.begin(other, timeout=SECOND)
    store.close_writer(handle)
    assert {transaction.id: transaction.status for transaction in store.transactions("orders")} == {
        begun.id: "aborted",
        kept.id: "open",
    }


def batch(store: Store, handle: WriterHandle, *contents: tuple[int, float]) -> list[str]:
    """Transactions with one event each."""
    begun = [store.begin(handle, timeout=10 * SECOND) for _ in contents]
    for transaction, content in zip(begun, contents, strict=True):
        store.add(handle, transaction.id, 1, *addition(content))
    return [transaction.id for transaction in begun]


def test_a_batch_of_transactions_becomes_visible_at_once(store: Store, handle: WriterHandle) -> None:
    ids = batch(store, handle, (1, 0.1), (2, 0.9), (3, 0.2))
    assert store.commit_batch(handle, 5, ids, note=40) == {0: 2, 1: 1}
    assert numbers_in(store, "orders", 0) == [1, 3] and numbers_in(store, "orders", 1) == [2]
    assert {transaction.status for transaction in store.transactions("orders")} == {"committed"}
    (note,) = store.notes("orders")
    assert (note.time, note.position) == (40, {0: 2, 1: 1})
    assert store.open_writer("orders", "till", take_over=True).sequence == 5


def test_a_batch_that_comes_again_changes_nothing(store: Store, handle: WriterHandle) -> None:
    store.commit_batch(handle, 5, batch(store, handle, (1, 0.1)), note=40)
    again = batch(store, handle, (1, 0.1))
    assert store.commit_batch(handle, 5, again, note=30) == {}
    assert numbers_in(store, "orders", 0) == [1]
    assert [transaction.status for transaction in store.transactions("orders") if transaction.id in again] == [
        "aborted"
    ]
    assert [note.time for note in store.notes("orders")] == [40]


def test_of_a_batch_with_a_transaction_that_is_over_nothing_becomes_visible(store: Store, handle: WriterHandle) -> None:
    ids = batch(store, handle, (1, 0.1), (2, 0.2))
    store.abort(handle, ids[1])
    with pytest.raises(DataError, match="was aborted"):
        store.commit_batch(handle, 1, ids)
    assert store.lengths("orders") == {0: 0, 1: 0}


def test_an_empty_batch_can_be_committed_with_a_note(store: Store, handle: WriterHandle) -> None:
    assert store.commit_batch(handle, 1, [], note=40) == {}
    assert [note.time for note in store.notes("orders")] == [40]


def test_a_transaction_that_is_named_twice_in_a_batch_is_committed_once(store: Store, handle: WriterHandle) -> None:
    first, second = batch(store, handle, (1, 0.1), (2, 0.2))
    assert store.commit_batch(handle, 1, [first, second, first]) == {0: 2}
    assert numbers_in(store, "orders", 0) == [1, 2]


def test_a_transaction_belongs_to_its_stream(store: Store, handle: WriterHandle, begun: TransactionInfo) -> None:
    store.add(handle, begun.id, 1, *addition((1, 0.1)))
    store.create_stream("other", config(2))
    elsewhere = store.open_writer("other", "till")
    for attempt in (
        lambda: store.commit(elsewhere, begun.id),
        lambda: store.commit_batch(elsewhere, 1, [begun.id]),
        lambda: store.add(elsewhere, begun.id, 2, *addition((2, 0.1))),
        lambda: store.abort(elsewhere, begun.id),
    ):
        with pytest.raises(DataError, match="is not known"):
            attempt()
    assert store.lengths("other") == {0: 0, 1: 0} and store.commit(handle, begun.id) == {0: 1}


def test_a_batch_whose_time_goes_back_is_rejected(store: Store, handle: WriterHandle) -> None:
    store.commit_batch(handle, 1, batch(store, handle, (1, 0.1)), note=40)
    ids = batch(store, handle, (2, 0.1))
    with pytest.raises(PlanError, match="does not go back"):
        store.commit_batch(handle, 2, ids, note=30)
    assert numbers_in(store, "orders", 0) == [1]
