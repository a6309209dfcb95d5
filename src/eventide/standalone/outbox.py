"""Outputs on their way out: numbered, kept until they are taken, and offered again where they were refused."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias

import polars as pl

from eventide.errors import Refused
from eventide.standalone.stores import Store

Downstream: TypeAlias = Callable[[pl.DataFrame], object]

_log = logging.getLogger("eventide.standalone")


class Outbox:
    """The pending outputs of an operator, each under a number of its own that no other output ever has."""

    def __init__(self, store: Store, downstream: Downstream | None, last: int) -> None:
        self._store = store
        self._downstream = downstream
        self.last = last
        self._waiting = store.outputs()
        self.blocked = downstream is not None and bool(self._waiting)

    @property
    def waiting(self) -> list[pl.DataFrame]:
        """What was not taken yet."""
        return [output for _, output in self._waiting]

    @property
    def automatic(self) -> bool:
        """There is somebody to send to."""
        return self._downstream is not None

    def add(self, outputs: Sequence[pl.DataFrame]) -> None:
        """More outputs, with their number in ``pane``."""
        for output in outputs:
            self.last += 1
            numbered = output.with_columns(
                pl.col("pane").struct.with_fields(pl.lit(self.last, pl.Int64).alias("number"))
            )
            self._store.keep(self.last, numbered)
            self._waiting.append((self.last, numbered))

    def send(self) -> bool:
        """Offer what waits, in order. False: something was refused, and waits with all behind it."""
        if self._downstream is None:
            return True
        sent = 0
        try:
            for _, output in self._waiting:
                if self._downstream(output) is False:
                    break
                sent += 1
        except Refused as refusal:
            _log.info("downstream refused an output: %s", refusal)
        finally:  # what was taken is not offered again, whatever the next one met with
            self._take(sent)
            self.blocked = bool(self._waiting)
        if self.blocked:
            _log.warning("downstream refused an output; %d wait, and no messages are taken in", len(self._waiting))
        return not self.blocked

    def clear(self) -> None:
        """All that waits was taken."""
        self._take(len(self._waiting))

    def _take(self, count: int) -> None:
        if count:
            self._store.drop(self._waiting[count - 1][0])
            del self._waiting[:count]
