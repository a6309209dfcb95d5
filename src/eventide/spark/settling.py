"""Worker processes that do not look for garbage where there is none."""

from __future__ import annotations

import gc

_settled = False


def settle() -> None:
    """Keep what is in memory now out of the sight of the garbage collector. Only the first call in a process counts.

    Spark collects garbage after each task, and with pandas, Arrow and Polars imported that takes 50 ms of every task.

    >>> settle()
    >>> gc.get_freeze_count() > 0
    True
    """
    global _settled
    if not _settled:
        _settled = True
        gc.collect()
        gc.freeze()
