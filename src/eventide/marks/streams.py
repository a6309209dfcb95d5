"""Streams as users hold them: an address, and what can be done with what is there.

The address of a stream is the address of its store and, behind ``#``, its name: ``sqlite:///shop.db#orders``,
``postgresql://me@db/shop#orders``, or ``https://marks.shop:8443#orders`` through a controller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any

import polars as pl
import pyarrow as pa

from eventide.errors import marks as errors
from eventide.marks.events import PLACES
from eventide.marks.mark import Mark
from eventide.marks.segments import Position, Ranges, Segments
from eventide.marks.stores import connect
from eventide.marks.stores.store import Config, Store, StreamInfo
from eventide.time import duration


@dataclass(frozen=True)
class Stream:
    """A stream in a store. Make one with ``create_stream`` or ``open_stream``.

    >>> from eventide.marks.stores.memory import MemoryStore
    >>> store = MemoryStore()
    >>> _ = store.create_stream("orders", Config(schema=pa.schema({"shop": pa.string()})))
    >>> orders = Stream(store, "orders")
    >>> [(one.number, one.low, one.high) for one in orders.split(0).open]
    [(1, 0.0, 0.5), (2, 0.5, 1.0)]
    >>> [(one.number, one.low, one.high) for one in orders.merge(1, 2).open]
    [(3, 0.0, 1.0)]
    """

    store: Store
    name: str

    @property
    def address(self) -> str:
        """Where it is, without a password."""
        return f"{self.store.url}#{self.name}"

    @property
    def schema(self) -> pa.Schema:
        """The columns of its events."""
        return self.info().config.schema

    @property
    def segments(self) -> Segments:
        """All segments that it ever had."""
        return self.info().segments

    def info(self) -> StreamInfo:
        """What it is now."""
        return self.store.stream(self.name)

    def scale(self, seal: Sequence[int], ranges: Ranges) -> Segments:
        """Seal some open segments, and open new ones over the same keys: ``scale([0], [(0, 0.5), (0.5, 1)])``."""
        return self.store.scale(self.name, seal, ranges)

    def split(self, segment: int, *, into: int = 2) -> Segments:
        """Divide the keys of an open segment among new ones."""
        known = self.segments
        if segment not in known:
            raise errors.unknown_segment(segment, [one.number for one in known.open])
        low, high = known[segment].low, known[segment].high
        bounds = [low + (high - low) * place / into for place in range(into)] + [high]
        return self.scale([segment], list(pairwise(bounds)))

    def merge(self, *segments: int) -> Segments:
        """Put the keys of neighbouring open segments into a new one."""
        known = self.segments
        for number in segments:
            if number not in known:
                raise errors.unknown_segment(number, [one.number for one in known.open])
        low, high = min(known[one].low for one in segments), max(known[one].high for one in segments)
        return self.scale(list(segments), [(low, high)])

    def seal(self) -> None:
        """End it: nothing can be written any more, and, once all is read, event time has ended, too."""
        self.store.seal(self.name)

    def truncate(self, cut: Position) -> None:
        """Drop all events before a cut, such as that of a mark that every reader has passed."""
        self.store.truncate(self.name, cut)

    def marks(self, *, after: int = 0) -> list[Mark]:
        """Its marks, in order."""
        return self.store.marks(self.name, after=after)

    def delete(self) -> None:
        """Forget it and all that belongs to it."""
        self.store.delete_stream(self.name)


def create_stream(
    address: str,
    *,
    schema: pa.Schema | Mapping[str, Any],
    segments: int = 1,
    writer_timeout: str | timedelta = "1 minute",
    mark_every: str | timedelta = "5 seconds",
    writer_lease: str | timedelta = "30 seconds",
    token: str | None = None,
) -> Stream:
    """A new stream of events with the columns of ``schema`` (of Arrow, or a dict with types of Polars).

    A writer that says nothing for ``writer_timeout`` is forgotten: time goes on without it. What writers say is merged
    into a mark ``mark_every`` so often, and not before a new stream is that old. ``segments`` is how many it begins
    with: each belongs to a part of the keys, and keeps the order of its events. ``writer_lease`` is how long a writer
    that does nothing keeps others from its id.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     orders = create_stream(f"sqlite:///{place}/shop.db#orders", schema={"shop": pl.String}, segments=2)
    ...     print(orders.schema.names, list_streams(f"sqlite:///{place}/shop.db"))
    ['shop'] ['orders']
    """
    store, name = _found(address, token)
    config = Config(
        schema=schema if isinstance(schema, pa.Schema) else pl.Schema(schema).to_frame().to_arrow().schema,
        segments=segments,
        writer_timeout=duration(writer_timeout, what="writer_timeout of create_stream()"),
        mark_every=duration(mark_every, what="mark_every of create_stream()"),
        writer_lease=duration(writer_lease, what="writer_lease of create_stream()"),
    )
    for reserved in PLACES:
        if reserved in config.schema.names:
            raise errors.reserved_column(name, reserved)
    if isinstance(segments, bool) or not isinstance(segments, int) or segments < 1:
        raise errors.bad_segments(segments)
    store.create_stream(name, config)
    return Stream(store, name)


def open_stream(address: str, *, token: str | None = None) -> Stream:
    """A stream that is there.

    >>> open_stream("shop.db")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    eventide.errors.kinds.PlanError: 'shop.db' is not the address of a stream. Write the store, #, and the name: ...
    """
    store, name = _found(address, token)
    store.stream(name)  # refused here if there is none
    return Stream(store, name)


def list_streams(url: str, *, token: str | None = None) -> list[str]:
    """The names of all streams in a store; ``url`` is the part of an address before ``#``."""
    return connect(url, token=token).streams()


def _found(address: str, token: str | None) -> tuple[Store, str]:
    url, hash_, name = address.rpartition("#")
    if not hash_ or not url or not name:
        raise errors.not_an_address(address)
    return connect(url, token=token), name
