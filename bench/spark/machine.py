"""What a benchmark does to the machine, and what the machine does besides."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType

_PAGE = os.sysconf("SC_PAGE_SIZE")


class Watch:
    """Samples the resident memory of this process, the JVM and all Python workers while it is open.

    Pages that processes share count for each of them. ``load_before`` tells whether the machine had other things to do.
    """

    def __init__(self, every: float = 0.25) -> None:
        self.total_mb = 0
        self.python_mb = 0
        self.load_before = round(os.getloadavg()[0], 1)
        self._every = every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            sizes = _tree(os.getpid())
            total, java = sum(size for _, size in sizes), sum(size for name, size in sizes if name == "java")
            self.total_mb = max(self.total_mb, total // 2**20)
            self.python_mb = max(self.python_mb, (total - java) // 2**20)
            if self._stop.wait(self._every):
                return


def _tree(root: int) -> list[tuple[str, int]]:
    """Name and resident bytes of a process and all its descendants."""
    parents, sizes = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # The name stands in brackets and may hold anything, also brackets.
            before, _, after = (folder / "stat").read_text().rpartition(")")
        except OSError:  # it has ended meanwhile
            continue
        fields = after.split()
        pid = int(folder.name)
        parents[pid] = int(fields[1])
        sizes[pid] = (before.partition("(")[2], int(fields[21]) * _PAGE)
    return [size for pid, size in sizes.items() if _descends(pid, root, parents)]


def _descends(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid != root and pid in parents:
        pid = parents[pid]
    return pid == root
