"""A driver whose batches are written by tasks, each in a process of its own, into PostgreSQL. All of them are killed.

It does what a query of Spark does with its batches, without Spark: a batch that was interrupted is repeated, a task
that dies is started again, and some tasks have a second attempt that runs at the same time.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

import polars as pl

from eventide.sinks.staged_tables import PostgresStaging, WrittenPart, write_parts
from eventide.sinks.table_sql import Statements
from tests.sinks.panes import MINUTE, frame, opened, output_info, row, shape
from tests.sinks.places import Place

PROCESSES = get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__])  # a driver has a server of its own for its tasks: each imports this once
WINDOWS, CHANGED, PARTS = 60, 30, 3
QUERY = "q"


def changes(batch_id: int) -> pl.DataFrame:
    """The panes of a batch: half of all windows change, and a window that has a pane retracts it."""
    counts = table_after(batch_id - 1)
    rows = []
    for window in _changed(batch_id):
        n = counts.get(window, 0)
        values = {"shop": f"shop {window % 7}"}
        if n:
            rows.append(row(window * MINUTE, index=n - 1, diff=-1, n=n, **values))
        rows.append(row(window * MINUTE, index=n, n=n + 1, **values))
    return frame(rows)


def table_after(batch_id: int) -> dict[int, int]:
    """What the table has after a batch: the number of batches that have changed each window."""
    counts: dict[int, int] = {}
    for each in range(batch_id + 1):
        for window in _changed(each):
            counts[window] = counts.get(window, 0) + 1
    return counts


def _changed(batch_id: int) -> list[int]:
    return Random(batch_id).sample(range(WINDOWS), CHANGED)


def committed(place: Path) -> int:
    """The last batch that this driver has recorded as done, as Spark does in its checkpoint."""
    return int((place / "committed").read_text())


def run(url: str, place: Path, seed: str, last: int | None) -> None:
    """Write batches until the last one; without one until somebody ends this process."""
    rng = Random(seed)
    store = opened(Place("postgres", url), output_info())
    sql = Statements("panes", shape(output_info()), "postgres")
    staging = TaskStaging(store._database, store, sql, place=place, rng=rng, kills=last is None)
    staging.clean(QUERY, 0)
    batch_id = committed(place) + 1
    while last is None or batch_id <= last:
        staging.put(batch_id, QUERY, batch_id)  # type: ignore[arg-type]  # the batch is its number
        unfinished = place / "committed.unfinished"
        unfinished.write_text(str(batch_id))
        unfinished.replace(place / "committed")
        batch_id += 1
    staging.clean(QUERY, batch_id)
    store.close()


@dataclass
class TaskStaging(PostgresStaging):
    """Staging whose tasks are processes."""

    place: Path = field(kw_only=True)
    rng: Random = field(kw_only=True)
    kills: bool = field(kw_only=True)

    def write(self, batch: Any, table: str) -> list[WrittenPart]:
        """Write each part of a batch in a task. Keep one successful attempt of each."""
        rows = changes(batch)
        parts = [self.rng.randrange(PARTS) for _ in range(rows.height)]
        divided = [rows[[i for i, part in enumerate(parts) if part == number]] for number in range(PARTS)]
        return [self._task(part, table) for part in divided if part.height]

    def _task(self, part: pl.DataFrame, table: str) -> WrittenPart:
        while True:
            if self.kills and self.rng.random() < 0.4:
                self._attempt(part, table, delay=self.rng.random() * 0.03)
            if self.rng.random() < 0.2:
                self._attempt(part, table)  # succeeds too, and nobody uses its rows
            written = self._attempt(part, table)
            if written is not None:
                return written

    def _attempt(self, part: pl.DataFrame, table: str, delay: float | None = None) -> WrittenPart | None:
        """Run a task. Kill it after the delay, if there is one; then its result is lost, as with an executor."""
        receiver, sender = PROCESSES.Pipe(duplex=False)
        task = PROCESSES.Process(target=run_task, args=(self, part, table, sender))
        task.start()
        sender.close()
        if delay is not None:
            task.join(delay)
            task.kill()
            with (self.place / "killed tasks").open("a") as log:
                log.write("x")
            return None
        with suppress(EOFError):
            return WrittenPart(*receiver.recv())
        raise OSError("a task has failed, because the server is down")

    def __getstate__(self) -> dict[str, Any]:
        """A task gets what it needs to connect."""
        return {"database": self.database, "sql": self.sql}


def run_task(staging: PostgresStaging, part: pl.DataFrame, table: str, result: Connection) -> None:
    """Write a part of a batch, as a task of Spark does. Tell nothing if that fails."""
    with suppress(Exception):
        result.send(tuple(write_parts(staging.database, staging.sql, table, iter([part])) or ()))
