"""Forks Spark's Python workers on this machine, as ``pyspark.daemon`` does, with the slowest imports done once."""

from __future__ import annotations

import sys
import traceback
from types import SimpleNamespace

from pyspark_eventide.preloading import preload


def told_unless_left() -> None:
    """Print how a worker failed; but not that Spark, which has no more tasks for it, has closed the connection."""
    if not isinstance(sys.exc_info()[1], BrokenPipeError):
        traceback.print_exc()


if __name__ == "__main__":
    preload()
    from pyspark import daemon

    daemon.traceback = SimpleNamespace(print_exc=told_unless_left)  # type: ignore[attr-defined, assignment]
    daemon.manager()
