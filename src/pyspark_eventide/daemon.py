"""Forks Spark's Python workers on this machine, as ``pyspark.daemon`` does, with the slowest imports done once.

Spark's own daemon imports nothing, because a thread that a package starts at import would be missing in the workers.
So every worker imports pyspark and Arrow by itself. Here they are imported before the fork: all that they start then is
a thread of the memory allocator, which is made for that. Polars is not: a forked Polars does not delete the files that
it spills. That is why this file lies outside of ``eventide``, which imports it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

_NEEDED = (
    "pyarrow",
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.streaming.proto.StateMessage_pb2",
)


def preload() -> None:
    """Import what every worker needs, and keep it out of the sight of the garbage collector."""
    for name in _NEEDED:
        with contextlib.suppress(ImportError):  # a worker that needs it says so better than we could
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


def quietly(worker: Callable[..., int]) -> Callable[..., int]:
    """A worker that goes without a word when Spark, which has no more tasks for it, closes its connection."""

    def run(*args: Any) -> int:
        try:
            return worker(*args)
        except BrokenPipeError:
            os._exit(0)

    return run


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


if __name__ == "__main__":
    preload()
    from pyspark import daemon

    daemon.worker = sparing(quietly(daemon.worker))
    daemon.manager()
