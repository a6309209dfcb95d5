"""Forks Spark's Python workers on this machine, as ``pyspark.daemon`` does, with the slowest imports done once."""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from pyspark_eventide.preloading import preload


def sparing(worker: Callable[..., int]) -> Callable[..., int]:
    """A worker that keeps what its tasks have imported out of the sight of the garbage collector, too.

    Spark collects all garbage after each task. To look through Eventide and Polars took longer than many a task.
    """
    known = len(sys.modules)

    def run(*args: Any) -> int:
        nonlocal known
        code = worker(*args)
        if len(sys.modules) > known:
            known = len(sys.modules)
            gc.collect()
            gc.freeze()
        return code

    return run


def told_unless_left() -> None:
    """Print how a worker failed; but not that Spark, which has no more tasks for it, has closed the connection."""
    if not isinstance(sys.exc_info()[1], BrokenPipeError):
        traceback.print_exc()


if __name__ == "__main__":
    preload()
    from pyspark import daemon

    daemon.worker = sparing(daemon.worker)
    daemon.traceback = SimpleNamespace(print_exc=told_unless_left)  # type: ignore[attr-defined, assignment]
    daemon.manager()
