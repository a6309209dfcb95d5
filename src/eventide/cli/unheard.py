"""Output that nobody reads any more (``| head -1``): no failure, but a reason to stop."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from eventide.sinks.batch import SinkBatch
    from eventide.sinks.sink import About, Sink

UNHEARD = 141  # as a shell tells of a program that a closed pipe has ended


def unread() -> bool:
    """Whether it is our own output that nobody reads, and not some other pipe."""
    try:
        looks = select.poll()
        looks.register(sys.stdout.fileno(), 0)
        return any(what & (select.POLLERR | select.POLLHUP) for _, what in looks.poll(0))
    except (AttributeError, OSError, ValueError):  # a system without it, or no file
        return False


def hush() -> None:
    """Print to nowhere from now on: Python's own end would print what is left, and fail again."""
    with contextlib.suppress(OSError, ValueError):  # no file, as in tests
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


@dataclass(frozen=True)
class Printed:
    """A sink that prints; ``unheard`` is called when nobody reads it."""

    sink: Sink
    unheard: Callable[[], None]

    @property
    def as_selected(self) -> bool:
        """Whether the sink needs no other columns than those that a query selects."""
        return getattr(self.sink, "as_selected", False)

    @property
    def flattens_windows(self) -> bool:
        """Whether the sink makes columns of the bounds of a window."""
        return getattr(self.sink, "flattens_windows", False)

    def open(self, schema: StructType, about: About) -> None:
        """As the sink does."""
        self.sink.open(schema, about)

    def write(self, batch: SinkBatch, batch_id: int, about: About) -> None:
        """Print the batch, for as long as somebody reads."""
        try:
            self.sink.write(batch, batch_id, about)
        except (BrokenPipeError, SystemExit):  # rich ends the program, which here is a thread of Spark's
            self.unheard()

    def close(self) -> None:
        """As the sink does."""
        self.sink.close()
