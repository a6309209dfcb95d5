"""A clean stop: Ctrl-C lets the running batch end, and the query can go on from its checkpoint later."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK = 0.1  # seconds between two looks whether to stop


@contextmanager
def stopping(spark: SparkSession) -> Iterator[threading.Event]:
    """While it is open, the first signal stops all queries after their batch, and the second breaks everything off.

    The event is set once a signal came. The handler only sets it: what waits for Spark meanwhile is not torn.
    """
    asked, over = threading.Event(), threading.Event()

    def handle(number: int, frame: Any) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = {one: signal.signal(one, handle) for one in (signal.SIGINT, signal.SIGTERM)}
    watcher = threading.Thread(target=_watch, args=(spark, asked, over), daemon=True)
    watcher.start()
    try:
        yield asked
    finally:
        over.set()
        for one, handler in before.items():
            signal.signal(one, handler)
        watcher.join(timeout=15)


def _watch(spark: SparkSession, asked: threading.Event, over: threading.Event) -> None:
    from eventide.spark.control import Control
    from eventide.spark.query import Query

    while not over.wait(_LOOK):
        if asked.is_set():
            for one in spark.streams.active:
                Query(one, Control(""), (), lambda: None).stop()
