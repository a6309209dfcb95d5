"""Batches under numbers of the user's own can be sent again at any time."""

from __future__ import annotations

import pytest

from eventide.errors import PlanError
from eventide.marks import Writer
from tests.marks.orders import UNANSWERED, numbers, order, orders


def test_a_sequence_that_was_appended_before_is_skipped() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    assert writer.append([order(1)], sequence=1) is True
    assert writer.append([order(1)], sequence=1) is False
    assert numbers(stream) == [1]


def test_a_sequence_is_skipped_by_another_writer_of_the_same_id_too() -> None:
    stream = orders()
    Writer(stream, "till").append([order(1)], sequence=7)
    again = Writer(stream, "till", take_over=True)
    assert again.last_sequence == 7
    assert again.append([order(1)], sequence=7) is False
    assert again.append([order(2)], sequence=8) is True
    assert numbers(stream) == [1, 2]


@pytest.mark.parametrize("failure", ["fail", "lose"])
def test_a_sequence_that_failed_is_appended_once_when_it_is_sent_again(failure: str) -> None:
    stream = orders()
    writer = Writer(stream, "till")
    getattr(stream.store, failure)("append")
    with pytest.raises(UNANSWERED):
        writer.append([order(1)], sequence=1)
    assert writer.unsent == []
    writer.append([order(1)], sequence=1)
    writer.append([order(2)], sequence=2)
    assert numbers(stream) == [1, 2]


def test_an_empty_batch_has_its_sequence_too() -> None:
    stream = orders()
    Writer(stream, "till").append([], sequence=4)
    assert Writer(stream, "till", take_over=True).last_sequence == 4


def test_the_numbers_of_another_id_do_not_matter() -> None:
    stream = orders()
    Writer(stream, "till").append([order(1)], sequence=1)
    assert Writer(stream, "web").append([order(2)], sequence=1) is True


def test_own_numbers_and_automatic_ones_are_not_mixed() -> None:
    stream = orders()
    own, automatic = Writer(stream, "own"), Writer(stream, "automatic")
    own.append([order(1)], sequence=1)
    with pytest.raises(PlanError, match="one of them only"):
        own.write(order(2))
    automatic.write(order(3))
    with pytest.raises(PlanError, match="one of them only"):
        automatic.append([order(4)], sequence=9)


@pytest.mark.parametrize("sequence", [0, -1, 1.5, True])
def test_what_is_no_number_of_a_batch_is_refused(sequence: int) -> None:
    with pytest.raises(PlanError, match="1 or more"):
        Writer(orders(), "till").append([order(1)], sequence=sequence)
