"""Forks Spark's Python workers on this machine, as ``pyspark.daemon`` does, with the slowest imports done once."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from pyspark_eventide.preloading import preload


def quietly(worker: Callable[..., int]) -> Callable[..., int]:
    """A worker that goes without a word when Spark, which has no more tasks for it, closes its connection."""

    def run(*args: Any) -> int:
        try:
            return worker(*args)
        except BrokenPipeError:
            os._exit(0)

    return run


if __name__ == "__main__":
    preload()
    from pyspark import daemon

    daemon.worker = quietly(daemon.worker)
    daemon.manager()
