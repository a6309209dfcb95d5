"""What a benchmark does to the machine, and what the machine does besides."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = os.sysconf("SC_CLK_TCK")
_used: dict[tuple[int, int], int] = {}
_lock = threading.Lock()


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
            tree = _tree(os.getpid())
            total, java = (
                sum(process.resident for process in tree),
                sum(process.resident for process in tree if process.name == "java"),
            )
            self.total_mb = max(self.total_mb, total // 2**20)
            self.python_mb = max(self.python_mb, (total - java) // 2**20)
            if self._stop.wait(self._every):
                return


def cpu_seconds() -> float:
    """What this process and all its descendants have used so far, as far as a ``Watch`` has seen them.

    Python workers that end are not waited for by any process of the tree, so that nobody else keeps their account.
    """
    _tree(os.getpid())
    with _lock:
        return sum(_used.values()) / _TICK


@dataclass(frozen=True)
class _Process:
    name: str
    parent: int
    started: int
    ticks: int
    resident: int


def _tree(root: int) -> list[_Process]:
    """A process and all its descendants."""
    processes = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # The name stands in brackets and may hold anything, also brackets.
            before, _, after = (folder / "stat").read_text().rpartition(")")
        except OSError:  # it has ended meanwhile
            continue
        fields = after.split()
        parent, user, system, started, pages = (int(fields[place]) for place in (1, 11, 12, 19, 21))
        name = before.partition("(")[2]
        processes[int(folder.name)] = _Process(name, parent, started, user + system, pages * _PAGE)
    tree = {pid: process for pid, process in processes.items() if _descends(pid, root, processes)}
    with _lock:
        _used.update({(pid, process.started): process.ticks for pid, process in tree.items()})
    return list(tree.values())


def _descends(pid: int, root: int, processes: Mapping[int, _Process]) -> bool:
    while pid != root and pid in processes:
        pid = processes[pid].parent
    return pid == root
