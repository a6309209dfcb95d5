"""Streams: made, listed, scaled, sealed, truncated, deleted."""

from __future__ import annotations

import pyarrow as pa
import pytest

from eventide.errors import DataError, PlanError
from eventide.marks.errors import SegmentSealedError, WriterFencedError
from eventide.marks.segments import Segments
from eventide.marks.stores.store import Config, Store
from tests.marks.stores.cases import SECOND, Clock, addition, config, numbers_in, part


def test_a_stream_is_read_back_as_it_was_created(store: Store, clock: Clock) -> None:
    schema = pa.schema([pa.field("shop", pa.string(), nullable=False), ("price", pa.decimal128(9, 2))], {"by": "me"})
    wanted = Config(schema=schema, segments=3, writer_timeout=7, mark_every=8, writer_lease=9)
    created = store.create_stream("orders", wanted)
    assert created == store.stream("orders")
    assert created.config == wanted and created.config.schema.equals(schema, check_metadata=True)
    assert (created.name, created.created, created.segments, dict(created.starts)) == (
        "orders",
        clock.time,
        Segments.even(3),
        {},
    )


def test_streams_are_listed_in_order(store: Store) -> None:
    for name in ("b", "a", "ä", "A'; DROP TABLE eventide_streams; --"):
        store.create_stream(name, config())
    assert store.streams() == sorted(["b", "a", "ä", "A'; DROP TABLE eventide_streams; --"])


def test_a_second_stream_of_a_name_is_rejected_and_the_first_stays(store: Store) -> None:
    store.create_stream("orders", config(2))
    with pytest.raises(PlanError, match="There is a stream 'orders' already"):
        store.create_stream("orders", config(5))
    assert store.stream("orders").config.segments == 2


def test_an_unknown_stream_is_rejected_by_all_that_ask_for_one(store: Store) -> None:
    store.create_stream("orders", config())
    for ask in (
        lambda: store.stream("order"),
        lambda: store.delete_stream("order"),
        lambda: store.scale("order", [0], [(0, 1)]),
        lambda: store.seal("order"),
        lambda: store.truncate("order", {0: 0}),
        lambda: store.lengths("order"),
        lambda: store.open_writer("order", "till"),
        lambda: store.read("order", 0, 0, rows=1),
        lambda: store.transactions("order"),
        lambda: store.notes("order"),
        lambda: store.marks("order"),
        lambda: store.last_mark("order"),
        lambda: store.acquire("order", "c", 1),
        lambda: store.group("order", "g"),
        lambda: store.put_group("order", "g", 0, b""),
    ):
        with pytest.raises(PlanError, match=r"There is no stream 'order'\. Did you mean 'orders'\?"):
            ask()


@pytest.mark.parametrize(
    ("names", "message"), [(["n", "__point"], "transactions add"), (["n", "m", "n"], "two columns 'n'")]
)
def test_a_schema_that_no_stream_can_have_is_rejected(store: Store, names: list[str], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        store.create_stream("orders", Config(schema=pa.schema([(name, pa.int64()) for name in names])))
    assert store.streams() == []


def test_a_handle_at_a_deleted_stream_is_not_one_at_the_next_of_its_name(store: Store) -> None:
    handles = []
    for _ in range(3):  # on a clock that stands still
        store.create_stream("orders", config())
        handles.append(store.open_writer("orders", "till"))
        store.delete_stream("orders")
    store.create_stream("orders", config())
    store.open_writer("orders", "till")
    for handle in handles:
        with pytest.raises(WriterFencedError):
            store.append(handle, 9, [part(0, 1)])
        with pytest.raises(WriterFencedError):
            store.close_writer(handle)
    assert store.lengths("orders") == {0: 0}


def test_a_deleted_stream_takes_all_with_it(store: Store, clock: Clock) -> None:
    store.create_stream("orders", config())
    handle = store.open_writer("orders", "till")
    store.append(handle, 1, [part(0, 1, 2)], note=5)
    begun = store.begin(handle, timeout=SECOND)
    store.add(handle, begun.id, 1, *addition((3, 0.5)))
    store.put_group("orders", "g", 0, b"state")
    lease = store.acquire("orders", "c", clock.time + SECOND)
    store.delete_stream("orders")
    assert store.streams() == [] and store.leases() == []

    store.create_stream("orders", config())
    assert store.lengths("orders") == {0: 0} and numbers_in(store, "orders", 0) == []
    assert store.notes("orders") == [] and store.transactions("orders") == [] and store.group("orders", "g") is None
    assert store.open_writer("orders", "till").sequence == 0
    again = store.acquire("orders", "c", clock.time + SECOND)
    assert lease is not None and again is not None and again.fence > lease.fence


def test_scaling_seals_some_and_opens_others(store: Store) -> None:
    store.create_stream("orders", config(2))
    handle = store.open_writer("orders", "till")
    store.append(handle, 1, [part(1, 7)])
    after = store.scale("orders", [1], [(0.5, 0.75), (0.75, 1.0)])
    assert after == store.stream("orders").segments == Segments.even(2).scaled([1], [(0.5, 0.75), (0.75, 1.0)])
    assert store.lengths("orders") == {0: 0, 1: 1, 2: 0, 3: 0}
    with pytest.raises(SegmentSealedError, match="Segment 1 of stream 'orders' is sealed"):
        store.append(handle, 2, [part(0, 8), part(1, 9)])
    assert store.lengths("orders") == {0: 0, 1: 1, 2: 0, 3: 0}
    assert store.append(handle, 2, [part(0, 8), part(3, 9)]) == {0: 1, 3: 1}


def test_what_cannot_be_scaled_is_rejected_and_changes_nothing(store: Store) -> None:
    store.create_stream("orders", config(2))
    store.scale("orders", [0], [(0.0, 0.5)])
    before = store.stream("orders")
    for seal, ranges in (([0], [(0.0, 0.5)]), ([9], [(0.0, 0.5)]), ([1], [(0.5, 0.9)]), ([1], [(0.5, 1), (0.7, 1)])):
        with pytest.raises(PlanError):
            store.scale("orders", seal, ranges)
    assert store.stream("orders") == before


def test_a_sealed_stream_takes_nothing_and_can_still_be_read(store: Store) -> None:
    store.create_stream("orders", config(2))
    handle = store.open_writer("orders", "till")
    store.append(handle, 1, [part(0, 1)])
    assert store.seal("orders").has_ended
    assert store.seal("orders") == store.stream("orders").segments
    for late in (
        lambda: store.append(handle, 2, [part(1, 2)]),
        lambda: store.begin(handle, timeout=SECOND),
    ):
        with pytest.raises(PlanError, match="Stream 'orders' has ended"):
            late()
    with pytest.raises(PlanError, match="Segment 0 is sealed already"):
        store.scale("orders", [0], [(0.0, 0.5)])
    assert store.append(handle, 1, [part(0, 1)]) == {0: 1}  # a retry of what was done before
    assert numbers_in(store, "orders", 0) == [1]


def test_sealing_aborts_open_transactions(store: Store) -> None:
    store.create_stream("orders", config())
    handle = store.open_writer("orders", "till")
    begun = store.begin(handle, timeout=SECOND)
    store.add(handle, begun.id, 1, *addition((1, 0.1)))
    store.seal("orders")
    with pytest.raises(DataError, match="was aborted"):
        store.commit(handle, begun.id)
    assert store.lengths("orders") == {0: 0}


def test_truncation_drops_what_is_before_the_cut_and_keeps_offsets(store: Store) -> None:
    store.create_stream("orders", config(2))
    handle = store.open_writer("orders", "till")
    store.append(handle, 1, [part(0, 0, 1), part(1, 10)])
    store.append(handle, 2, [part(0, 2, 3, 4)])
    store.truncate("orders", {0: 3, 1: 0})
    assert dict(store.stream("orders").starts) == {0: 3}
    assert store.lengths("orders") == {0: 5, 1: 1}
    (blob,) = store.read("orders", 0, 3, rows=100)
    assert (blob.offset, blob.rows) == (2, 3)  # reaches beyond the cut
    assert numbers_in(store, "orders", 0, 3) == [3, 4] and numbers_in(store, "orders", 1) == [10]
    with pytest.raises(DataError, match="begins at offset 3 now, and 2 was requested"):
        store.read("orders", 0, 2, rows=1)


def test_truncation_drops_predecessors_of_the_cut(store: Store) -> None:
    store.create_stream("orders", config())
    handle = store.open_writer("orders", "till")
    store.append(handle, 1, [part(0, 0, 1)])
    store.scale("orders", [0], [(0.0, 0.5), (0.5, 1.0)])
    store.append(handle, 2, [part(1, 2, 3)])
    store.truncate("orders", {1: 2, 2: 0})
    assert dict(store.stream("orders").starts) == {0: 2, 1: 2}
    assert store.read("orders", 0, 2, rows=9) == store.read("orders", 1, 2, rows=9) == []
    assert store.append(handle, 3, [part(1, 4)]) == {1: 3}
    assert numbers_in(store, "orders", 1, 2) == [4]


def test_an_earlier_truncation_changes_nothing(store: Store) -> None:
    store.create_stream("orders", config())
    handle = store.open_writer("orders", "till")
    store.append(handle, 1, [part(0, 0, 1, 2)])
    store.truncate("orders", {0: 2})
    store.truncate("orders", {0: 1})
    assert dict(store.stream("orders").starts) == {0: 2}


def test_a_truncation_that_is_no_cut_or_beyond_the_end_is_rejected(store: Store) -> None:
    store.create_stream("orders", config(2))
    store.append(store.open_writer("orders", "till"), 1, [part(0, 1, 2)])
    with pytest.raises(PlanError, match="is not a cut of stream 'orders'"):
        store.truncate("orders", {0: 1})
    for cut in ({0: 3, 1: 0}, {0: -1, 1: 0}):
        with pytest.raises(PlanError, match="Segment 0 of stream 'orders' has 2 events"):
            store.truncate("orders", cut)
    assert numbers_in(store, "orders", 0) == [1, 2]
