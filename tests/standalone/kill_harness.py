"""An operator in a process of its own, that is killed: ``python kill_harness.py STORE TAKEN KIND COUNT LIFE``.

It reads a made-up stream from where its store says, and appends each output that it is handed to a file. When it has
given its database as many statements as it may, it dies on the spot; with a life of 0 it lives to the end. A negative
life counts outputs instead: it dies when one was taken, before the database knows that. Each life has bundles of its
own size, so that what is read again comes in other bundles.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import polars as pl

import eventide as ev
from eventide.standalone import JoinWindow, WindowAggregator


def stream(count: int) -> list[dict[str, Any]]:
    """Messages whose times go forth and back."""
    return [{"offset": i, "time": i * 1_000_000 + i * 7919 % 20_000_000, "value": i % 10} for i in range(count)]


def operator(kind: str, store: str, downstream: Any) -> Any:
    shared: dict[str, Any] = {"time": "time", "offset": "offset", "store": store, "downstream": downstream}
    if kind == "join":
        return JoinWindow(ev.sliding("20 seconds", every="10 seconds"), **shared)
    aggregates = {"n": ev.count(), "values": ev.collect_list("offset")}
    return WindowAggregator(ev.tumbling("10 seconds"), aggregates, **shared, late=ev.on_update())


def mortal(running: Any, life: int) -> None:
    """Die, as by an axe, before the given statement."""
    left = abs(life)

    def count_down(statement: str) -> None:
        nonlocal left
        left -= life > 0 or statement.startswith("DELETE FROM outputs")
        if life and left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    running._store._database.set_trace_callback(count_down)


def main(store: str, taken: str, kind: str, count: int, life: int) -> None:
    file = os.open(taken, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def take(output: pl.DataFrame) -> None:
        number = output["pane_number"][0]
        start = output["window_start"].dt.epoch("us")[0]
        offsets = output["offset"].to_list() if kind == "join" else output["values"][0].to_list()
        os.write(file, (json.dumps([number, start, offsets]) + "\n").encode())

    running = operator(kind, store, take)
    begin = running.recover_from() or 0
    mortal(running, life)
    running.timeout(now=0 if begin == 0 else begin * 1_000_000)
    rows, size = stream(count), 1 + life % 3
    for start in range(begin, count, size):
        running.add_message(rows[start : start + size], now=start * 1_000_000)
    running.flush()
    running.close()


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5]))
