"""A copy of a writer or reader in a forked process must not speak for the one it was copied from."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from eventide.marks import Reader, Transaction, Writer
from tests.marks.harness import numbers, order, orders


def in_a_child(work: Callable[[], object]) -> str:
    """What a forked process says when it does something: ``done``, or its error."""
    answer, say = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work()
            outcome = "done"
        except BaseException as error:
            outcome = str(error)
        os.write(say, outcome.encode())
        os._exit(0)
    os.close(say)
    os.waitpid(child, 0)
    with os.fdopen(answer) as text:
        return text.read()


WRITING: dict[str, Callable[[Writer], object]] = {
    "write": lambda writer: writer.write(order(9)),
    "append": lambda writer: writer.append([order(9)]),
    "flush": lambda writer: writer.flush(),
    "note": lambda writer: writer.note_time(9),
    "begin": lambda writer: writer.begin(),
    "tick": lambda writer: writer.tick(),
}


@pytest.mark.parametrize("call", WRITING)
def test_a_writer_is_rejected_in_a_forked_process(call: str) -> None:
    writer = Writer(orders(), "till")
    writer.append([order(1)])
    assert "forked" in in_a_child(lambda: WRITING[call](writer))
    writer.append([order(2)])
    assert numbers(writer.stream) == [1, 2]


def test_a_writer_is_rejected_in_a_forked_process_although_its_lock_was_held() -> None:
    writer = Writer(orders(), "till")
    with writer._session.lock:
        outcome = in_a_child(lambda: writer.write(order(9)))
    assert "forked" in outcome


TRANSACTING: dict[str, Callable[[Transaction], object]] = {
    "write": lambda transaction: transaction.write(order(9)),
    "commit": lambda transaction: transaction.commit(),
    "abort": lambda transaction: transaction.abort(),
}


@pytest.mark.parametrize("call", TRANSACTING)
def test_a_transaction_is_rejected_in_a_forked_process(call: str) -> None:
    transaction = Writer(orders(), "till").begin()
    assert "forked" in in_a_child(lambda: TRANSACTING[call](transaction))


def closed_in_a_child(thing: Writer | Reader, calls: list[str]) -> str:
    def work() -> None:
        calls.clear()
        with thing:
            pass
        assert not calls, f"it called {calls}"

    return in_a_child(work)


def test_the_end_of_a_forked_process_frees_no_handle_and_no_segment() -> None:
    stream = orders()
    with Writer(stream, "till") as writer, Reader(stream) as reader:
        writer.write(order(1))
        calls = stream.store.calls  # type: ignore[attr-defined]
        assert closed_in_a_child(writer, calls) == "done"
        assert closed_in_a_child(reader, calls) == "done"


def test_a_block_of_a_transaction_lets_the_error_of_a_forked_process_through() -> None:
    transaction = Writer(orders(), "till").begin()

    def work() -> None:
        with transaction:
            raise OSError("enough")

    assert in_a_child(work) == "enough"


def test_a_reader_is_rejected_in_a_forked_process() -> None:
    reader = Reader(orders())
    assert "forked" in in_a_child(reader.read)
    assert "forked" in in_a_child(reader.commit)
