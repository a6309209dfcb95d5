"""The memory that the state of a query may take in the driver."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from eventide._arguments import byte_count, is_integer
from eventide.errors import PlanError, shown

_SHARE = 0.4  # of the memory that this process may use: the rest is for batches, the JVM and the operating system
_GROUPS = Path("/sys/fs/cgroup")
_PROCESS_GROUPS = Path("/proc/self/cgroup")


def memory_limit(chosen: int | str | None) -> int:
    """Return how many bytes of state stay in memory: as chosen, or a share of the memory of this process.

    >>> memory_limit("2g")
    2147483648
    """
    if chosen is not None:
        size = byte_count(chosen) if isinstance(chosen, str) else chosen
        if not is_integer(size, at_least=1):
            raise PlanError(
                f"run(state_memory={shown(chosen)}) is not a size. Write '2g', '512m', or a number of bytes."
            )
        return size
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(min([machine, *group_limits(_GROUPS, _PROCESS_GROUPS)]) * _SHARE)


def group_limits(groups: Path, process: Path) -> Iterator[int]:
    """Yield the limits of the control group of this process, and of all groups that contain it.

    In a container the path of the group may be that of the host. Then only the root exists: it is the container's.
    """
    for line in _text(process).splitlines() or ["0::/"]:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root, name = (groups / "memory", "memory.limit_in_bytes") if controllers else (groups, "memory.max")
        group = Path(path.lstrip("/"))
        for place in (group, *group.parents):
            text = _text(root / place / name).strip()
            if text.isdigit():
                yield int(text)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""
