"""A lock next to a checkpoint, held while a query of ``ev.run`` uses it. It ends with the process.

It tells ``eventide repair`` that a query is running. It is advisory, and only for checkpoints on this machine.
"""

from __future__ import annotations

from pathlib import Path

try:
    import fcntl
except ImportError:  # not on POSIX
    fcntl = None  # type: ignore[assignment]


class RunLock:
    """Held by queries together; ``is_free`` says whether any query holds it."""

    def __init__(self, checkpoint: Path) -> None:
        self._path = checkpoint / "eventide" / "lock"
        self._file: object | None = None

    def hold(self) -> None:
        """Hold the lock until ``release``."""
        if fcntl is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = self._path.open("a")
        fcntl.flock(file, fcntl.LOCK_SH)
        self._file = file

    def release(self) -> None:
        """Let go of the lock."""
        if self._file is not None:
            self._file.close()  # type: ignore[attr-defined]
            self._file = None

    def is_free(self) -> bool:
        """Whether no query of any process holds the lock."""
        if fcntl is None or not self._path.exists():
            return True
        with self._path.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return False
        return True
