"""What is stored is what was written, or it is rejected."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eventide.errors import PlanError
from eventide.marks import Stream, Writer
from eventide.marks.events import decode, decode_all, encode, to_table
from eventide.marks.stores.memory import MemoryStore
from eventide.marks.stores.store import Config
from tests.marks.harness import eventually, numbers, order, orders

SCHEMA = pa.schema(
    {
        "n": pa.int64(),
        "small": pa.uint8(),
        "text": pa.string(),
        "at": pa.timestamp("us"),
        "many": pa.list_(pa.int32()),
        "pair": pa.struct({"a": pa.int64(), "b": pa.float64()}),
        "counts": pa.map_(pa.string(), pa.int64()),
    }
)
STRANGE: list[dict[str, Any]] = [
    {"n": 2**70},
    {"small": -1},
    {"n": float("nan")},
    {"n": object},
    {"text": "\ud800"},
    {"text": 5},
    {"at": 2**80},
]
FRACTIONS: list[dict[str, Any]] = [
    {"n": 1.5},
    {"n": np.float32(1.5)},
    {"n": Decimal("1.5")},
    {"small": 0.5},
    {"at": 1.5},
    {"many": [1, 1.5]},
    {"many": np.array([1.5])},
    {"pair": {"a": 1.5, "b": 1.5}},
    {"counts": [("kiel", 1.5)]},
]
WHOLE: list[dict[str, Any]] = [
    {"n": 1.0},
    {"n": np.int16(1)},
    {"n": None},
    {"many": [1.0, None]},
    {"many": np.array([1])},
    {"pair": {"b": 1.5}},
    {"counts": [("kiel", 1)]},
    {"at": datetime(2026, 1, 1)},
]


@pytest.mark.parametrize("event", STRANGE + FRACTIONS, ids=repr)
def test_an_event_that_does_not_fit_is_named_and_the_others_are_kept(event: dict[str, Any]) -> None:
    store = MemoryStore()
    store.create_stream("orders", Config(schema=SCHEMA))
    writer = Writer(Stream(store, "orders"), "till")
    for row in ({"n": 1}, event, {"n": 2}):
        writer.write(row)
    with pytest.raises(PlanError, match="was rejected"):
        writer.flush()
    writer.flush()
    assert store.lengths("orders") == {0: 2}


@pytest.mark.parametrize("event", WHOLE, ids=repr)
def test_whole_numbers_of_any_kind_are_taken(event: dict[str, Any]) -> None:
    (name,) = event
    assert to_table([event], SCHEMA)[name].to_pylist() == pa.array(event.values(), SCHEMA.field(name).type).to_pylist()


def test_a_number_with_a_fraction_is_rejected_from_arrow_as_well() -> None:
    with pytest.raises(PlanError, match="truncated"):
        to_table(pa.table({"n": [1.5]}), SCHEMA)


def test_an_event_that_the_thread_found_unfit_is_reported_with_the_next_call() -> None:
    stream = orders()
    writer = Writer(stream, "till", note_time="auto", note_margin="0 s", note_every="1 ms")
    with writer._session.lock:
        for event in (order(1), {"n": "bad"}, {"n": "worse"}):
            writer.write(event)
    eventually(lambda: numbers(stream) == [1])
    with pytest.raises(PlanError, match=r"'bad'.*was rejected") as caught:
        writer.flush()
    assert ["'worse'" in note for note in caught.value.__notes__] == [True]
    writer.flush()
    writer.close()


def test_an_event_that_is_written_when_another_one_is_reported_unfit_is_kept() -> None:
    stream = orders()
    with Writer(stream, "till", note_time="auto", note_margin="0 s", note_every="1 ms") as writer:
        with writer._session.lock:
            writer.write(order(1))
            writer.write({"n": "bad"})
        eventually(lambda: numbers(stream) == [1])
        with pytest.raises(PlanError, match="was rejected"):
            writer.write(order(2))
    assert numbers(stream) == [1, 2]


def test_an_event_that_the_thread_found_unfit_is_reported_at_the_end_at_the_latest() -> None:
    stream = orders()
    with (
        pytest.raises(PlanError, match="was rejected"),
        Writer(stream, "till", note_time="auto", note_margin="0 s", note_every="1 ms") as w,
    ):
        with w._session.lock:
            w.write(order(1))
            w.write({"n": "bad"})
        eventually(lambda: numbers(stream) == [1])
    Writer(stream, "till").close()  # the id is free


def test_an_unfit_event_does_not_hold_up_the_end_of_a_block() -> None:
    stream = orders()
    with pytest.raises(PlanError, match="was rejected"), Writer(stream, "till") as writer:
        for event in (order(1), {"n": "bad"}, order(2)):
            writer.write(event)
    assert numbers(stream) == [1, 2]
    Writer(stream, "till").close()  # the id is free


def _sent(sizes: list[int], schema: pa.Schema = SCHEMA) -> list[bytes]:
    numbers = iter(range(sum(sizes)))
    rows = [[{"n": next(numbers), "text": "kiel" * size, "many": [size]} for _ in range(size)] for size in sizes]
    return [encode(to_table(some, schema)) for some in rows]


@pytest.mark.parametrize("sizes", [[1], [3, 0, 500, 1], [0], [0, 0], [9_000, 1, 9_000]], ids=repr)
def test_many_batches_are_read_as_each_of_them_would_be(sizes: list[int]) -> None:
    sent = _sent(sizes)
    decoded = decode_all(sent)
    assert decoded.equals(pa.concat_tables(map(decode, sent)))
    assert decoded.schema == SCHEMA


def test_batches_that_begin_differently_are_read_as_well() -> None:
    sent = [*_sent([2]), *_sent([2], SCHEMA.with_metadata({"version": "another"}))]
    assert decode_all(sent)["n"].to_pylist() == [0, 1, 0, 1]


def test_texts_of_each_batch_keep_their_own_dictionary() -> None:
    texts = [["kiel", "bonn"], ["ulm", "kiel"], ["bonn"]]
    sent = [encode(pa.table({"text": pa.array(some).dictionary_encode()})) for some in texts]
    assert decode_all(sent)["text"].to_pylist() == ["kiel", "bonn", "ulm", "kiel", "bonn"]
