"""The metrics of a query that runs in another process, read from the history next to its checkpoint."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, overload

from eventide.errors import cause_text
from eventide.metrics import LateWarning
from eventide.spark.batch_history import OTHER_LINES, older_file
from eventide.spark.metrics import BatchMetrics, from_json
from eventide.spark.metrics_listener import follow, publish
from eventide.spark.sink_delivery import OnBatch, warn_of_late_rows

_INTERVAL = 0.1  # seconds between two looks at the file
_KEPT = 1000  # batches


class FollowedHistory(Sequence[BatchMetrics]):
    """The last batches of a query, oldest first. A daemon thread calls ``on_batch`` for each new one.

    It begins at the end of the file, so it has the batches of this run only.
    """

    def __init__(self, file: Path, on_batch: OnBatch | None = None) -> None:
        self._lines = NewLines(file)
        self._on_batch = on_batch
        self._late_warning = LateWarning()
        self._batches: list[BatchMetrics] = []
        self._lock = threading.RLock()
        self._reading = False
        self._has_warned = False
        self._query = ""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.has_failure = False  # whether the other process has written why the query has ended

    @overload
    def __getitem__(self, index: int) -> BatchMetrics: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[BatchMetrics]: ...

    def __getitem__(self, index: int | slice) -> BatchMetrics | Sequence[BatchMetrics]:
        self.refresh()
        return self._batches[index]

    def __len__(self) -> int:
        self.refresh()
        return len(self._batches)

    def __repr__(self) -> str:
        return repr(self[:])

    def start(self, query: str) -> None:
        """Follow a query, by Spark's id of it. It may be started twice."""
        self._query, self.has_failure = query, False
        follow(query, self.refresh)
        if self._thread is None:
            self._thread = threading.Thread(target=self._follow, name="eventide-history", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End the thread, after the last batch."""
        self._ended.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self.refresh()

    def refresh(self) -> None:
        """Read new batches, and report them."""
        with self._lock:
            if self._reading:  # on_batch reads the history
                return
            self._reading = True
            try:
                entries = list(self._lines.read())
                self.has_failure = any("failed" in entry for entry in entries) or self.has_failure
                metrics = [from_json(entry) for entry in entries if entry.keys().isdisjoint(OTHER_LINES)]
                for _, batch in groupby(metrics, lambda operator: operator.batch):
                    self._report(list(batch))
            finally:
                self._reading = False

    def refresh_or_warn(self) -> None:
        """Refresh, and warn of the first error: nobody waits for the thread. The next look may succeed."""
        try:
            self.refresh()
        except Exception as cause:
            if self._has_warned:
                return
            self._has_warned = True
            warnings.warn(
                f"The history {self._lines.file} cannot be read ({type(cause).__name__}: {cause}), so metrics and "
                "run(on_batch=) miss batches. The query continues on the server of Spark Connect. Check that this "
                "process can read the file.",
                stacklevel=2,
            )

    def _report(self, metrics: Sequence[BatchMetrics]) -> None:
        self._batches.extend(metrics)
        del self._batches[:-_KEPT]
        publish(self._query, metrics)
        for operator in metrics:
            warn_of_late_rows(self._late_warning, operator)
            self._call(operator)

    def _call(self, operator: BatchMetrics) -> None:
        if self._on_batch is None:
            return
        try:
            self._on_batch(operator)
        except Exception as cause:
            self._on_batch = None
            warnings.warn(
                f"run(on_batch=) failed in batch {operator.batch} ({cause_text(cause)}) and is not called "
                "any more. The query continues on the server of Spark Connect.",
                stacklevel=2,
            )

    def _follow(self) -> None:
        while not self._ended.wait(_INTERVAL):
            self.refresh_or_warn()


class NewLines:
    """The lines that are appended to a history file, from its present end on."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._identity, self._offset = _identity(file), file.stat().st_size if file.is_file() else 0

    def read(self) -> Iterator[dict[str, Any]]:
        """Yield the complete new lines. A full file has become the older one, so its rest comes first."""
        identity = _identity(self.file)
        if identity is None:
            return
        if identity != self._identity:
            older = older_file(self.file)
            if self._identity is not None and _identity(older) == self._identity:
                yield from self._read(older)
            self._identity, self._offset = identity, 0
        yield from self._read(self.file)

    def _read(self, file: Path) -> Iterator[dict[str, Any]]:
        if file.stat().st_size < self._offset:  # another process has removed an incomplete line
            self._offset = file.stat().st_size
        with file.open("rb") as opened:
            opened.seek(self._offset)
            content = opened.read()
        end = content.rfind(b"\n") + 1
        self._offset += end
        for line in content[:end].splitlines():
            yield json.loads(line)


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        about = file.stat()
    except OSError:
        return None
    return about.st_dev, about.st_ino
