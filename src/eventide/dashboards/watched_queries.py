"""Queries that a dashboard shows: those of a directory, of one checkpoint, of a history file, or of this process."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventide._paths import on_disk
from eventide.dashboards.health import first_line
from eventide.dashboards.history_tables import HistoryLog, HistoryTables
from eventide.errors import PlanError
from eventide.spark.batch_history import FILE
from eventide.spark.control import Control
from eventide.spark.control_status import is_running
from eventide.spark.metrics import BatchMetrics, to_json

if TYPE_CHECKING:
    from eventide.spark.query import Query

_RECORD = Path("eventide") / "plan.json"
_DEPTH = 3  # levels of directories that are searched
_SKIPPED = {"eventide", "state", "offsets", "commits", "sources", "metadata"}  # parts of a checkpoint


class WatchedQuery:
    """A query on disk. A history file without its checkpoint has no control, and is never running."""

    def __init__(self, id: str, *, checkpoint: Path | None, history: Path) -> None:
        self.id = id
        self.checkpoint = checkpoint
        self.lock = threading.Lock()
        self._log = HistoryLog(history)

    @property
    def tables(self) -> HistoryTables:
        """What the history holds."""
        return self._log.tables

    @property
    def failure(self) -> str | None:
        """Why the query has failed."""
        return self.tables.failure

    @property
    def is_running(self) -> bool | None:
        """Whether the query runs; None: unknown."""
        return None if self.checkpoint is None else is_running(self.checkpoint / "eventide")

    @property
    def control(self) -> Control | None:
        """Where commands are sent; None: nowhere."""
        return None if self.checkpoint is None else Control(self.checkpoint)

    def refresh(self) -> bool:
        """Read what is new, and return whether anything is."""
        return self._log.refresh()

    def record(self) -> Mapping[str, Any]:
        """Return the record of the query's last start; empty if there is none."""
        return {} if self.checkpoint is None else _read_json(self.checkpoint / _RECORD)

    def unfinished_batch(self) -> tuple[int, int] | None:
        """Return the number of the batch that has begun and not ended, and its start in microseconds."""
        if self.checkpoint is None:
            return None
        begun = max(_numbers(self.checkpoint / "offsets"), default=None)
        if begun is None or (self.checkpoint / "commits" / str(begun)).exists():
            return None
        try:
            return begun, (self.checkpoint / "offsets" / str(begun)).stat().st_mtime_ns // 1000
        except OSError:  # Spark has deleted it
            return None

    def pending_commands(self) -> list[dict[str, Any]]:
        """Return the commands that were sent and are in no batch of the history, oldest first."""
        if self.checkpoint is None:
            return []
        applied = {command["id"] for command in self.tables.commands}
        folder = self.checkpoint / "eventide" / "control"
        commands = [_read_json(file) for file in folder.glob("*.json")] if folder.is_dir() else []
        waiting = [command for command in commands if command.get("id") and command["id"] not in applied]
        waiting = [c for c in waiting if not (self.checkpoint / "eventide" / "applied" / f"{c['id']}.json").is_file()]
        return sorted(waiting, key=lambda command: int(command.get("sent", 0)))


class LiveQuery(WatchedQuery):
    """A query of this process. Without a history file, its last batches are read from memory."""

    def __init__(self, query: Query) -> None:
        local = on_disk(query.control.checkpoint)
        name = str(query.spark.name or Path(query.control.checkpoint).name)
        checkpoint = None if local is None else Path(local)
        history = None if checkpoint is None else checkpoint / FILE
        self._in_memory = history is None or not history.is_file()  # the query has created it at its start
        super().__init__(name, checkpoint=checkpoint, history=history or Path(os.devnull))
        self._query = query
        self._tables = HistoryTables()
        self._last: BatchMetrics | None = None

    @property
    def tables(self) -> HistoryTables:
        """What the history of the query holds."""
        return self._tables if self._in_memory else self._log.tables

    @property
    def failure(self) -> str | None:
        """Why the query has failed."""
        exception = None if self._query.is_active else self._query.spark.exception()
        return None if exception is None else first_line(str(exception))

    @property
    def is_running(self) -> bool | None:
        """Whether the query runs."""
        return self._query.is_active

    @property
    def control(self) -> Control | None:
        """The control stream of the query."""
        return self._query.control

    def refresh(self) -> bool:
        """Read the batches that have ended since the last time."""
        if not self._in_memory:
            return super().refresh()
        new: list[BatchMetrics] = []
        for metrics in reversed(list(self._query.history)):
            if metrics is self._last:
                break
            new.append(metrics)
        if not new:
            return False
        self._last = new[0]
        return self._tables.add(to_json(metrics) for metrics in reversed(new))


class QueryDirectory:
    """All queries of a place. New ones appear at the next look."""

    def __init__(self, place: str | os.PathLike[str] | None = None, *, live: Query | None = None) -> None:
        self._queries: dict[str, WatchedQuery] = {}
        self._lock = threading.Lock()
        self._place: Path | None = None
        if live is not None:
            query = LiveQuery(live)
            self._queries[query.id] = query
        elif place is not None:
            self._place = _checked(os.fspath(place))
            self.look()

    def look(self) -> list[WatchedQuery]:
        """Return the queries, by name."""
        with self._lock:
            if self._place is not None:
                for id_, checkpoint, history in _search(self._place):
                    if id_ not in self._queries:
                        self._queries[id_] = WatchedQuery(id_, checkpoint=checkpoint, history=history)
            return [self._queries[id_] for id_ in sorted(self._queries)]

    def get(self, id: str) -> WatchedQuery | None:
        """Return a query by its id; None if there is none."""
        with self._lock:
            return self._queries.get(id)


def _checked(place: str) -> Path:
    local = on_disk(place)
    if local is None:
        raise PlanError(
            f"{place!r} is not on this machine, and a query keeps its history only next to a local checkpoint. Run it "
            "with --trace FILE, and open that file: eventide dashboard FILE."
        )
    path = Path(local)
    if not path.exists():
        raise PlanError(
            f"There is no file or directory {place!r}. Name a checkpoint, a directory of checkpoints, or a file of "
            "--trace."
        )
    return path


def _search(place: Path) -> list[tuple[str, Path | None, Path]]:
    """Return id, checkpoint and history of each query: the place itself, or those below it."""
    if place.is_file():
        return [(place.stem, None, place)]
    if is_checkpoint(place):
        return [(place.resolve().name, place, place / FILE)]
    queries = []
    for folder, names, _ in os.walk(place):
        path = Path(folder)
        if path != place and is_checkpoint(path):
            queries.append((path.relative_to(place).as_posix(), path, path / FILE))
            names.clear()
        elif len(path.relative_to(place).parts) >= _DEPTH:
            names.clear()
        names[:] = [name for name in names if name not in _SKIPPED and not name.startswith(".")]
    return sorted(queries, key=lambda query: query[0])


def is_checkpoint(path: Path) -> bool:
    """Return whether a directory is the checkpoint of a query."""
    return (path / _RECORD).is_file() or (path / FILE).is_file()


def _numbers(folder: Path) -> list[int]:
    try:
        return [int(path.name) for path in folder.iterdir() if path.name.isdecimal()]
    except OSError:
        return []


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
