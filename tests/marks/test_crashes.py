"""Writers, controllers and readers are killed while they work: nothing is lost, nothing doubled, and time goes on."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest

from eventide.marks import Mark, Stream, Writer, create_stream
from tests.marks.crash_harness import BEGIN, END, ROWS, SCHEMA, STEPS, WRITERS, Sink, events, main

pytestmark = pytest.mark.long  # writers and readers are killed

ROUNDS = int(os.environ.get("EVENTIDE_MARK_KILLS", "5"))
PATIENCE = 60.0
"""Seconds that anything may take; it is far less, unless something stands still."""

Row = tuple[int, int, str, int, str, int]


NURSERY = get_context("forkserver")  # which has imported all that they need: it takes longer than what they do
NURSERY.set_forkserver_preload(["tests.marks.crash_harness"])


class Programs:
    """Processes of our own, by role and name."""

    def __init__(self, address: str, sink: str, place: Path) -> None:
        self._arguments = address, sink
        self._place = place
        self._running: dict[tuple[str, str], ForkServerProcess] = {}

    def start(self, role: str, name: str) -> None:
        address, sink = self._arguments
        process = NURSERY.Process(target=main, args=(role, address, sink, name, self._place), daemon=True)
        process.start()
        self._running[role, name] = process

    def alive(self, role: str) -> list[str]:
        return [name for (of, name), process in self._running.items() if of == role and process.is_alive()]

    def kill(self, role: str, name: str) -> None:
        process = self._running.pop((role, name))
        process.kill()
        process.join(PATIENCE)
        assert process.exitcode in (-signal.SIGKILL, 0), self._log(name)  # it may have been faster

    def end(self, role: str) -> None:
        """Wait until all of a role have done their work, and done it well."""
        for (of, name), process in self._running.items():
            if of == role:
                process.join(PATIENCE)
                assert process.exitcode == 0, f"{name}: {process.exitcode}\n{self._log(name)}"

    def stop(self) -> None:
        for process in self._running.values():
            process.kill()
            process.join(PATIENCE)

    def _log(self, name: str) -> str:
        return (self._place / f"{name}.log").read_text()


@contextmanager
def programs(address: str, sink: str, place: Path) -> Iterator[Programs]:
    running = Programs(address, sink, place)
    try:
        yield running
    finally:
        running.stop()


def until(happened: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end, f"in vain: {what}"
        time.sleep(0.01)


@pytest.mark.parametrize("round_", range(ROUNDS))
def test_nothing_is_lost_or_doubled_and_time_advances(
    round_: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if round_ % 2:
        url = sink = request.getfixturevalue("postgres_url")
    else:
        url, sink = f"sqlite:///{tmp_path}/marks.db", f"{tmp_path}/sink.db"
    stream = create_stream(f"{url}#orders", schema=SCHEMA, segments=2, mark_every="30 ms", writer_timeout="10 minutes")
    table = Sink(sink)
    table.create()
    for name in WRITERS:  # all are known from the beginning: time waits for each of them
        Writer(stream, name).note_time(BEGIN, nothing_written=True)
    with programs(f"{url}#orders", sink, tmp_path) as running:
        go_through(running, stream, random.Random(round_))
    check_sink(table.rows())
    check_marks(stream, table.rows())
    table.close()
    stream.store.close()


def go_through(running: Programs, stream: Stream, chance: random.Random) -> None:
    """One scale event, and one of each role killed and started again, somewhere on the way."""
    roles = {"controller": ("north", "south"), "reader": ("left", "right"), "writer": WRITERS}
    everyone = [(role, name) for role, names in roles.items() for name in names]
    for role, name in everyone:
        running.start(role, name)
    total = len(WRITERS) * STEPS * ROWS
    what = [*roles, "scale"]
    chance.shuffle(what)
    for role, after in zip(what, sorted(chance.randrange(total // 2) for _ in what), strict=True):
        until(lambda after=after: sum(stream.store.lengths("orders").values()) >= after, f"{after} events")
        time.sleep(chance.random() * 0.02)  # anywhere between two events
        if role == "scale":
            stream.split(chance.choice(stream.segments.open).number, into=chance.choice([2, 3]))
        else:
            name = owner(stream) if role == "controller" else chance.choice(running.alive(role) or [None])
            if name is not None:  # writers may be done before anybody comes to kill them
                running.kill(role, name)
                running.start(role, name)
    running.end("writer")
    until(lambda: reached(stream) == END, f"time {END}, and it is {reached(stream)}")
    stream.seal()
    running.end("reader")
    running.end("controller")


def owner(stream: Stream) -> str:
    until(lambda: bool(stream.store.leases()), "a controller with a lease")
    return stream.store.leases()[0].owner


def reached(stream: Stream) -> int | None:
    last = stream.store.last_mark("orders")
    return None if last is None else last.lower


def check_sink(rows: list[Row]) -> None:
    identities = [(writer, n) for _, _, writer, n, _, _ in rows]
    wanted = [(writer, row["n"]) for writer in WRITERS for step in range(1, STEPS + 1) for row in events(writer, step)]
    assert sorted(identities) == sorted(wanted)
    came: dict[tuple[str, str], list[int]] = {}
    for _, _, writer, n, shop, _ in rows:
        came.setdefault((writer, shop), []).append(n)
    assert all(numbers == sorted(numbers) for numbers in came.values())


def check_marks(stream: Stream, rows: list[Row]) -> None:
    marks, segments = stream.marks(), stream.segments
    assert [mark.number for mark in marks] == list(range(1, len(marks) + 1))
    for earlier, later in pairwise(marks):
        assert earlier.lower < later.lower and earlier.upper <= later.upper
        assert segments.is_at_most(earlier.cut, later.cut)
    for mark in marks:
        assert segments.is_cut(mark.cut)
        assert kept(mark, rows, segments.ancestors(mark.cut))


def kept(mark: Mark, rows: list[Row], passed: set[int]) -> bool:
    """The promise: everything before its time lies before its cut."""
    return all(
        segment in passed or place < mark.cut.get(segment, 0) for segment, place, _, _, _, at in rows if at < mark.lower
    )
