"""Writers and readers on stores that last: the same history on each of them, opened by address."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from eventide.marks import Controller, Reader, ReaderGroup, TimeWindow, Writer, create_stream, open_stream
from eventide.time import MAX
from tests.marks.harness import SCHEMA, SHOPS, order


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new stream of orders in each kind of database."""
    url = f"sqlite:///{tmp_path}/shop.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    create_stream(f"{url}#orders", schema=SCHEMA, segments=2, mark_every="1 ms")
    return f"{url}#orders"


def test_events_and_time_go_from_a_writer_through_a_scale_event_to_readers(address: str) -> None:
    stream = open_stream(address)
    controller = Controller(stream.store)
    with Writer(address, "till", routing_key="shop") as writer:
        writer.append([order(n) for n in range(16)], sequence=1, time=100)
        stream.split(0)
        with writer.begin() as transaction:
            transaction.append([order(n) for n in range(16, 32)])
            transaction.commit(200)
        assert writer.append([order(0)], sequence=1) is False
        writer.append([order(n) for n in range(32, 40)], sequence=2)
        controller.step()
        with Reader(address, "billing", "one") as first, Reader(address, "billing", "two") as second:
            numbers: list[int] = []
            while batches := [batch for batch in (first.read(7), second.read(7)) if batch is not None]:
                numbers += [n for batch in batches for n in batch.table["n"].to_pylist()]
                first.commit(), second.commit()
            assert sorted(numbers) == list(range(40))
            for place in range(len(SHOPS)):
                assert [n for n in numbers if n % len(SHOPS) == place] == list(range(place, 40, len(SHOPS)))
            assert first.time_window() == second.time_window() == TimeWindow(200, None)
    stream.seal()
    controller.step()
    with Reader(address, "billing") as reader:
        assert reader.at_end
        assert reader.time_window().lower == MAX
    group = ReaderGroup(address, "billing")
    group.reset("earliest")
    assert group.checkpoint() == {0: 0, 1: 0}


def test_several_threads_may_write_and_each_key_keeps_the_order_of_its_thread(address: str) -> None:
    with Writer(address, "till", batch_rows=7) as writer:

        def write(first: int) -> None:
            for n in range(first, first + 100):
                writer.write(order(n, shop=str(first)), routing_key=str(first))

        threads = [threading.Thread(target=write, args=(first,)) for first in (0, 1000, 2000)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with Reader(address) as reader:
        rows = [row for batch in reader for row in batch.table.to_pylist()]
    for first in (0, 1000, 2000):
        assert [row["n"] for row in rows if row["shop"] == str(first)] == list(range(first, first + 100))
    assert len(rows) == 300
