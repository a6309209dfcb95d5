"""Batches under numbers of the user's own can be sent again at any time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from eventide.errors import DataError, PlanError
from eventide.marks import Writer, create_stream
from eventide.spark.marks_sink import TransactionalWriter
from tests.marks.harness import SCHEMA, UNANSWERED, Clock, noted, numbers, order, orders


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


def test_explicit_sequences_and_automatic_ones_are_not_mixed() -> None:
    stream = orders()
    explicit, automatic = Writer(stream, "own"), Writer(stream, "automatic")
    explicit.append([order(1)], sequence=1)
    with pytest.raises(PlanError, match="one of them only"):
        explicit.write(order(2))
    automatic.write(order(3))
    with pytest.raises(PlanError, match="one of them only"):
        automatic.append([order(4)], sequence=9)


@pytest.mark.parametrize("first", ["write", "append"])
def test_explicit_sequences_are_rejected_where_a_writer_before_used_automatic_ones(first: str) -> None:
    stream = orders()
    with Writer(stream, "till") as writer:
        writer.append([order(1)]) if first == "append" else writer.write(order(1))
    again = Writer(stream, "till")
    assert again.last_sequence == 0
    with pytest.raises(PlanError, match="two writer ids"):
        again.append([order(2)], sequence=1)
    again.append([order(2)])
    assert numbers(stream) == [1, 2]


def test_automatic_sequences_after_own_ones_are_not_taken_for_them() -> None:
    stream = orders()
    with Writer(stream, "till") as writer:
        writer.append([order(1)], sequence=1)
    with Writer(stream, "till") as writer:
        writer.write(order(2))
    again = Writer(stream, "till")
    with pytest.raises(PlanError, match="two writer ids"):
        again.append([order(3)], sequence=2)


@pytest.mark.parametrize("failure", ["fail", "lose"])
def test_the_clock_is_not_noted_past_a_sequence_that_was_not_answered(failure: str) -> None:
    clock = Clock()
    stream = orders(clock=clock)
    writer = Writer(stream, "till", note_time="auto", note_margin="0 s", clock=clock)
    writer.append([order(1)], sequence=1)
    tried = clock.now = clock.now + 4_000_000
    getattr(stream.store, failure)("append")
    with pytest.raises(UNANSWERED):
        writer.append([order(2)], sequence=2)
    clock.now += 10_000_000
    writer.tick()
    ((time, _),) = noted(stream)
    assert time <= tried
    writer.append([order(2)], sequence=2)
    clock.now += 10_000_000
    writer.tick()
    ((time, position),) = noted(stream)
    assert (time > tried, position, numbers(stream)) == (True, {0: 2}, [1, 2])


def test_a_time_is_rejected_while_a_sequence_is_not_answered() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    writer.append([order(1)], sequence=1)
    stream.store.fail("append")  # type: ignore[attr-defined]
    with pytest.raises(UNANSWERED):
        writer.append([order(2)], sequence=2)
    with pytest.raises(DataError, match="sequence=2"):
        writer.note_time(50)
    writer.append([order(2)], sequence=2, time=50)
    assert noted(stream) == [(50, {0: 2})]


def test_a_sequence_that_was_given_up_for_a_later_one_does_not_hold_time() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    stream.store.fail("append")  # type: ignore[attr-defined]
    with pytest.raises(UNANSWERED):
        writer.append([order(2)], sequence=2)
    writer.append([order(3)], sequence=3)
    writer.note_time(50)
    assert noted(stream) == [(50, {0: 1})]


def test_a_sequence_that_was_rejected_does_not_hold_time() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    writer.append([order(1)], sequence=1, time=50)
    with pytest.raises(PlanError, match="does not go back"):
        writer.append([order(2)], sequence=2, time=49)
    writer.note_time(60)
    assert noted(stream) == [(60, {0: 1})]


@pytest.mark.parametrize("sequence", [0, -1, 1.5, True, 2**62, 2**70])
def test_what_is_no_number_of_a_batch_is_rejected(sequence: int) -> None:
    with pytest.raises(PlanError, match="from 1 to"):
        Writer(orders(), "till").append([order(1)], sequence=sequence)


def test_a_sink_that_numbers_its_batches_continues_where_automatic_sequences_ended(tmp_path: Path) -> None:
    stream = create_stream(f"sqlite:///{tmp_path}/shop.db#orders", schema=SCHEMA)
    with Writer(stream, "job") as writer:
        writer.write(order(1))
    columns = StructType([StructField("shop", StringType()), StructField("n", LongType())])
    for _ in range(2):  # the second time is Spark's, after a crash
        sink = TransactionalWriter(stream.address, columns, {"writer_id": "job"})
        message = sink.write(iter(_batches(order(2))))
        sink.commit_batch([message], 0, query="first")
    assert stream.store.lengths("orders") == {0: 2}


def _batches(*events: dict[str, Any]) -> list[pa.RecordBatch]:
    return pa.Table.from_pylist(list(events), SCHEMA).to_batches()
