"""How a query answers commands: a lock while it runs, and a small file for each command that a batch has applied.

Both are in the directory ``eventide`` of the checkpoint. The lock works on the machine of the driver only. A checkpoint
that is stored elsewhere has none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from eventide.spark.metrics import BatchMetrics, from_json, to_json
from eventide.spark.storage import Storage, read_text

_APPLIED = "eventide/applied"
_LOCK = "running.lock"


class RunningLock:
    """Held by a driver while its query runs. The operating system releases it when the process ends in any way.

    It is shared, so that two queries never block each other. A probe requests it exclusively.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / _LOCK
        self._file: int | None = None

    def acquire(self) -> None:
        """Take the lock; without effect where files cannot be locked."""
        if self._file is not None:
            return
        try:
            import fcntl

            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT)
            fcntl.flock(self._file, fcntl.LOCK_SH)
        except (ImportError, OSError):
            self.release()

    def release(self) -> None:
        """Release the lock: the query has ended."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def is_running(directory: Path) -> bool:
    """Return whether a query of this machine runs on the checkpoint."""
    path = directory / _LOCK
    if not path.is_file():
        return False
    try:
        import fcntl
    except ImportError:
        return False
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def write_applied(storage: Storage, metrics: Iterable[BatchMetrics]) -> None:
    """Store the metrics of a batch once for each command that it applied. A repeated batch writes the same again."""
    for operator in metrics:
        for effect in operator.commands:
            text = json.dumps(to_json(operator), ensure_ascii=False)
            storage.replace(f"{_APPLIED}/{effect.id}.json", f"{text}\n".encode())


def read_applied(storage: Storage, command: str) -> BatchMetrics | None:
    """Return the batch that applied a command; None if none has, or Spark has not committed it yet."""
    text = read_text(storage, f"{_APPLIED}/{command}.json")
    if text is None:
        return None
    batch = from_json(json.loads(text))
    return batch if storage.exists(f"commits/{batch.batch}") else None
