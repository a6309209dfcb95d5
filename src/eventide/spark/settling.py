"""Worker processes that do not look for garbage where there is none."""

from __future__ import annotations

import gc

_TASKS = 16  # after so many nothing new is imported or cached for good

_settled = 0


def settle() -> None:
    """Keep what is in memory now out of the sight of the garbage collector. To be called when a task begins.

    Spark collects garbage after each task, so what is left then has come to stay: modules, mostly. With Arrow and
    Polars imported, to look through it all takes 50 ms of every task. Later tasks of a process change nothing: a
    cycle that is kept out of sight and dies afterwards is never freed.

    >>> settle()
    >>> gc.get_freeze_count() > 0
    True
    """
    global _settled
    if _settled == 0:
        gc.collect()
    if _settled < _TASKS:
        _settled += 1
        gc.freeze()
