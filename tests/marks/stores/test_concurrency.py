"""Many at a time: threads, processes, forks, and processes that are killed."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from eventide.errors import DataError
from eventide.marks.segments import Segments
from eventide.marks.stores import connect
from eventide.marks.stores.sql_dialects import postgres_store, sqlite_store
from eventide.marks.stores.store import Store
from tests.marks.stores.cases import addition, config, numbers_in, part
from tests.marks.stores.harness import BATCH, run_concurrently, work

pytestmark = pytest.mark.long  # many processes share a store

ROOT = Path(__file__).parents[3]


def contents(store: Store, stream: str) -> dict[int, list[int]]:
    """What is in each segment; its blobs leave no holes."""
    lengths = store.lengths(stream)
    for segment, length in lengths.items():
        ends = 0
        for blob in store.read(stream, segment, 0, rows=1 << 40):
            assert blob.offset == ends
            ends = blob.offset + blob.rows
        assert ends >= length  # more may have come since
    return {segment: numbers_in(store, stream, segment) for segment in lengths}


def is_in_order(numbers: list[int], writer: int) -> bool:
    of_writer = [number for number in numbers if number // 1_000_000 == writer]
    return of_writer == sorted(of_writer)


def test_writers_in_processes_lose_nothing_and_repeat_nothing_while_the_stream_is_scaled(url: str) -> None:
    store = connect(url)
    store.create_stream("orders", config(2))
    writers, batches = 3, 40
    spawn = multiprocessing.get_context("spawn")
    running = [spawn.Process(target=work, args=(url, "orders", writer, batches)) for writer in range(writers)]
    for process in running:
        process.start()
    done = 0
    while any(process.is_alive() for process in running):
        now = sum(map(len, contents(store, "orders").values()))
        if now > done + writers * batches * BATCH // 8:
            done = now
            split_or_merge(store)
    for process in running:
        process.join()
        assert process.exitcode == 0
    numbers_by_segment = contents(store, "orders")
    expected = [
        writer * 1_000_000 + number for writer in range(writers) for number in range(BATCH, (batches + 1) * BATCH)
    ]
    assert sorted(number for numbers in numbers_by_segment.values() for number in numbers) == expected
    assert len(numbers_by_segment) > 2
    assert all(is_in_order(numbers, writer) for numbers in numbers_by_segment.values() for writer in range(writers))
    assert {segment: len(numbers) for segment, numbers in numbers_by_segment.items()} == store.lengths("orders")
    store.close()


def split_or_merge(store: Store) -> None:
    first, second, *_ = now = store.stream("orders").segments.open
    if len(now) < 4:
        middle = (first.low + first.high) / 2
        store.scale("orders", [first.number], [(first.low, middle), (middle, first.high)])
    else:
        store.scale("orders", [first.number, second.number], [(first.low, second.high)])


def test_a_writer_that_is_killed_leaves_whole_appends_and_what_was_acknowledged(url: str) -> None:
    store = connect(url)
    store.create_stream("orders", config(2))
    acknowledged = 0
    for killed_after in (1, 7, 20):
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.marks.stores.harness", url, "orders", str(acknowledged + 1)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(["src", os.environ.get("PYTHONPATH", "")])},
        )
        assert process.stdout is not None
        for _ in range(killed_after):
            acknowledged = int(process.stdout.readline())
        process.kill()
        acknowledged = max([acknowledged, *map(int, process.stdout.read().split("\n")[:-1])])
        process.wait()
        settle(store, acknowledged)
        numbers_by_segment = contents(store, "orders")
        assert numbers_by_segment[0] == numbers_by_segment[1] == list(range(1, len(numbers_by_segment[0]) + 1))
        assert acknowledged <= len(numbers_by_segment[0]) <= acknowledged + 1
        (note,) = store.notes("orders")
        assert (note.time, dict(note.position)) == (
            len(numbers_by_segment[0]),
            {0: len(numbers_by_segment[0]), 1: len(numbers_by_segment[0])},
        )
    store.close()


def settle(store: Store, acknowledged: int) -> None:
    """A server may still be busy with what a client that is gone had sent: taking its handle waits for that."""
    handle = store.open_writer("orders", "endless", take_over=True)
    assert handle.sequence >= acknowledged


@pytest.mark.usefixtures("often")
def test_threads_share_a_store(url: str) -> None:
    store = connect(url)
    store.create_stream("orders", config(2))

    def write(writer: int) -> None:
        handle = store.open_writer("orders", f"writer {writer}")
        for batch in range(1, 11):
            parts = [part(segment, writer * 1_000_000 + batch) for segment in (0, 1)]
            store.append(handle, batch, parts if writer % 2 else parts[::-1])

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(write, range(6)))
    numbers_by_segment = contents(store, "orders")
    expected = [writer * 1_000_000 + batch for writer in range(6) for batch in range(1, 11)]
    assert sorted(numbers_by_segment[0]) == sorted(numbers_by_segment[1]) == expected
    store.close()


@pytest.mark.usefixtures("often")
def test_whoever_reads_while_others_append_pack_and_truncate_misses_nothing(url: str) -> None:
    store = connect(url)
    store.create_stream("orders", config())
    rows = 300

    def write() -> None:
        handle = store.open_writer("orders", "till")
        for number in range(rows):
            store.append(handle, number + 1, [part(0, number)])

    def pack() -> None:
        while store.lengths("orders")[0] < rows:
            store.compact("orders", 0, store.compact("orders", 0, 0))

    def truncate() -> None:
        while (length := store.lengths("orders")[0]) < rows:
            store.truncate("orders", {0: max(length - 20, 0)})

    def read() -> None:
        while (length := store.lengths("orders")[0]) < rows:
            start = dict(store.stream("orders").starts).get(0, 0)
            try:
                numbers = numbers_in(store, "orders", 0, start)
            except DataError:  # it was truncated meanwhile
                continue
            assert numbers == list(range(start, start + len(numbers))) and start + len(numbers) >= length

    run_concurrently(5, lambda place: (write, pack, pack, truncate, read)[place]())
    start = dict(store.stream("orders").starts)[0]
    assert numbers_in(store, "orders", 0, start) == list(range(start, rows))
    store.close()


def test_a_store_that_was_used_before_a_fork_works_on_both_sides(url: str) -> None:
    store = connect(url)
    store.create_stream("orders", config())
    handle = store.open_writer("orders", "parent")
    store.append(handle, 1, [part(0, 1)])
    child = multiprocessing.get_context("fork").Process(target=_append_in_child, args=(store,))
    child.start()
    for sequence in range(2, 12):
        store.append(handle, sequence, [part(0, sequence)])
    child.join()
    assert child.exitcode == 0
    assert sorted(contents(store, "orders")[0]) == [*range(1, 12), *range(101, 111)]
    store.close()


def _append_in_child(store: Store) -> None:
    handle = store.open_writer("orders", "child")
    for sequence in range(1, 11):
        store.append(handle, sequence, [part(0, 100 + sequence)])


def test_a_new_store_can_be_opened_by_many_at_once(url: str) -> None:
    stores = run_concurrently(6, lambda _: connect(url))
    for number, store in enumerate(stores):
        store.create_stream(f"stream {number}", config())
    assert len(connect(url).streams()) == 6


def test_of_many_that_scale_at_once_one_does(url: str) -> None:
    store = connect(url)
    store.create_stream("orders", config())

    def scale(_: int) -> bool:
        try:
            store.scale("orders", [0], [(0.0, 0.5), (0.5, 1.0)])
        except ValueError:
            return False
        return True

    assert sorted(run_concurrently(5, scale)) == [False] * 4 + [True]
    assert store.stream("orders").segments == Segments.even(1).scaled([0], [(0.0, 0.5), (0.5, 1.0)])


def test_of_many_that_want_one_id_one_gets_it(url: str) -> None:
    store = connect(url)
    store.create_stream("orders", config())

    def open_(_: int) -> int:
        try:
            return store.open_writer("orders", "till").epoch
        except ValueError:
            return 0

    assert sum(epoch > 0 for epoch in run_concurrently(5, open_)) == 1


def test_of_many_that_want_a_lease_one_gets_it(url: str) -> None:
    store = connect(url)
    store.create_stream("orders", config())
    until = store.now() + 60_000_000
    leases = run_concurrently(5, lambda number: store.acquire("orders", f"c{number}", until))
    assert [lease for lease in leases if lease is not None] == store.leases()
    assert len(store.leases()) == 1


def test_of_many_that_change_a_group_one_does(url: str) -> None:
    store = connect(url)
    store.create_stream("orders", config())
    for version in range(3):
        done = run_concurrently(5, lambda number, seen=version: store.put_group("orders", "g", seen, bytes([number])))
        assert sorted(done) == [False] * 4 + [True]
    state = store.group("orders", "g")
    assert state is not None and state[0] == 3


def test_of_a_commit_and_a_sweep_at_the_same_time_one_wins(url: str) -> None:
    before, after = opened(url, lambda: 5), opened(url, lambda: 10)  # of two machines, one has a fast clock
    before.create_stream("orders", config())
    handle = before.open_writer("orders", "till")
    length = 0
    for _ in range(20):
        begun = before.begin(handle, timeout=3)
        before.add(handle, begun.id, 1, *addition((1, 0.5)))

        def commit_or_sweep(number: int, id_: str = begun.id) -> int:
            if number:
                return after.expire_transactions()
            try:
                return len(before.commit(handle, id_))
            except DataError:
                return 0

        committed, swept = run_concurrently(2, commit_or_sweep)
        length += committed
        assert committed + swept == 1 and before.lengths("orders") == {0: length}


def opened(url: str, clock: Callable[[], int]) -> Store:
    return (sqlite_store if url.startswith("sqlite") else postgres_store)(url, clock=clock)
