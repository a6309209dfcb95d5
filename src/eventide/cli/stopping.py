"""A clean stop: Ctrl-C lets the running batch end, and the query can go on from its checkpoint later."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from eventide.cli.unheard import hush

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK = 0.1  # seconds between two looks whether to stop


class Stop(threading.Event):
    """Set once the queries are to stop."""

    unheard = False  # it is because nobody reads what is printed
    finished = False  # it is because the stream has ended

    def finish(self) -> None:
        """Stop, because no row can follow; unless somebody has asked before."""
        if not self.is_set():
            self.finished = True
            self.set()

    def nobody_reads(self) -> None:
        """Stop, and be quiet about it."""
        self.unheard = True
        hush()
        self.set()


@contextmanager
def stopping(spark: SparkSession, say: Callable[[], None]) -> Iterator[Stop]:
    """While it is open, the first signal stops all queries after their batch, and the second breaks everything off.

    The event is set once a signal came, and ``say`` is called. The handler only sets it: what waits for Spark
    meanwhile is not torn.
    """
    asked, over = Stop(), threading.Event()

    def handle(number: int, frame: Any) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = {one: signal.signal(one, handle) for one in (signal.SIGINT, signal.SIGTERM)}
    watcher = threading.Thread(target=_watch, args=(spark, asked, over, say), daemon=True)
    watcher.start()
    try:
        yield asked
        over.set()
        watcher.join(timeout=15)
    finally:  # whoever breaks off does not wait for a watcher that waits for a batch
        over.set()
        for one, handler in before.items():
            signal.signal(one, handler)


def gone(spark: SparkSession) -> bool:
    """Whether Spark has ended without us: who stops a service may send the signal to all of its processes."""
    try:
        return bool(spark.sparkContext._jsc.sc().isStopped())
    except Exception:
        return True


def _watch(spark: SparkSession, asked: Stop, over: threading.Event, say: Callable[[], None]) -> None:
    from eventide.spark.control import Control
    from eventide.spark.query import Query

    said = False
    while not over.wait(_LOOK):
        if not asked.is_set():
            continue
        if not said and not asked.unheard and not asked.finished:
            say()
            said = True
        try:
            for one in spark.streams.active:
                Query(one, Control(""), (), lambda: None).stop(wait=None)
        except Exception:  # Spark is gone, or the query has failed: who waits for the query is told
            continue
