"""Streams by address: create, open, list, scale, truncate.

The address of a stream is the URL of its store and, after ``#``, its name: ``sqlite:///shop.db#orders``,
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

from eventide._arguments import is_integer
from eventide._databases import without_password
from eventide.errors import PlanError
from eventide.marks.errors import bad_segments, reserved_column, unknown_segment
from eventide.marks.events import LOCATION_COLUMNS
from eventide.marks.mark import Mark
from eventide.marks.segments import Position, Ranges, Segments
from eventide.marks.stores import connect
from eventide.marks.stores.store import Config, Store, StreamInfo
from eventide.time import duration


@dataclass(frozen=True)
class Stream:
    """A stream in a store, from ``create_stream`` or ``open_stream``.

    >>> from eventide.marks.stores.memory import MemoryStore
    >>> store = MemoryStore()
    >>> _ = store.create_stream("orders", Config(schema=pa.schema({"shop": pa.string()})))
    >>> orders = Stream(store, "orders")
    >>> [(segment.number, segment.low, segment.high) for segment in orders.split(0).open]
    [(1, 0.0, 0.5), (2, 0.5, 1.0)]
    >>> [(segment.number, segment.low, segment.high) for segment in orders.merge(1, 2).open]
    [(3, 0.0, 1.0)]
    """

    store: Store
    name: str

    @property
    def address(self) -> str:
        """Its address, without a password."""
        return f"{self.store.url}#{self.name}"

    @property
    def schema(self) -> pa.Schema:
        """The columns of its events."""
        return self.info().config.schema

    @property
    def segments(self) -> Segments:
        """All of its segments, open and sealed."""
        return self.info().segments

    def info(self) -> StreamInfo:
        """Its current state."""
        return self.store.stream(self.name)

    def scale(self, seal: Sequence[int], ranges: Ranges) -> Segments:
        """Seal open segments and open new ones over the same keys: ``scale([0], [(0, 0.5), (0.5, 1)])``."""
        return self.store.scale(self.name, seal, ranges)

    def split(self, segment: int, *, into: int = 2) -> Segments:
        """Divide the keys of an open segment among new ones."""
        low, high = self._key_range([segment])
        bounds = [low + (high - low) * index / into for index in range(into)] + [high]
        return self.scale([segment], list(pairwise(bounds)))

    def merge(self, *segments: int) -> Segments:
        """Merge adjacent open segments into a new one."""
        return self.scale(list(segments), [self._key_range(segments)])

    def seal(self) -> None:
        """End the stream: it accepts no more events, and event time ends once everything is read."""
        self.store.seal(self.name)

    def truncate(self, cut: Position) -> None:
        """Delete all events before a cut, such as that of a mark that every reader has passed."""
        self.store.truncate(self.name, cut)

    def marks(self, *, after: int = 0) -> list[Mark]:
        """Its marks with numbers above ``after``, in order."""
        return self.store.marks(self.name, after=after)

    def delete(self) -> None:
        """Delete it with everything that belongs to it."""
        self.store.delete_stream(self.name)

    def _key_range(self, numbers: Sequence[int]) -> tuple[float, float]:
        segments = self.segments
        for number in numbers:
            if number not in segments:
                raise unknown_segment(number, segments.open_numbers)
        return min(segments[number].low for number in numbers), max(segments[number].high for number in numbers)


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
    """Create a stream of events with the columns of ``schema`` (of Arrow, or a dict with types of Polars).

    ``segments`` is the initial number of segments; each has a range of keys and keeps its events in order. A writer
    that notes nothing for ``writer_timeout`` no longer holds back the marks. The notes of all writers are merged into
    a mark at most every ``mark_every``; the first mark of a new stream waits that long. ``writer_lease`` is how long
    the id of a silent writer stays reserved.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     orders = create_stream(f"sqlite:///{directory}/shop.db#orders", schema={"shop": pl.String}, segments=2)
    ...     print(orders.schema.names, list_streams(f"sqlite:///{directory}/shop.db"))
    ['shop'] ['orders']
    """
    store, name = _connect(address, token)
    config = Config(
        schema=schema if isinstance(schema, pa.Schema) else pl.Schema(schema).to_frame().to_arrow().schema,
        segments=segments,
        writer_timeout=duration(writer_timeout, what="writer_timeout of create_stream()"),
        mark_every=duration(mark_every, what="mark_every of create_stream()"),
        writer_lease=duration(writer_lease, what="writer_lease of create_stream()"),
    )
    for column in LOCATION_COLUMNS:
        if column in config.schema.names:
            raise reserved_column(name, column)
    if not is_integer(segments, at_least=1):
        raise bad_segments(segments)
    store.create_stream(name, config)
    return Stream(store, name)


def open_stream(address: str, *, token: str | None = None) -> Stream:
    """Open an existing stream.

    >>> open_stream("shop.db")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    eventide.errors.PlanError: 'shop.db' is not the address of a stream. Write the store, #, and the name: ...
    """
    store, name = _connect(address, token)
    store.stream(name)  # fails early if there is none
    return Stream(store, name)


def list_streams(url: str, *, token: str | None = None) -> list[str]:
    """The names of all streams in a store. ``url`` is the part of an address before ``#``.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     _ = create_stream(f"sqlite:///{directory}/shop.db#orders", schema={"shop": pl.String})
    ...     print(list_streams(f"sqlite:///{directory}/shop.db"))
    ['orders']
    """
    return connect(url, token=token).streams()


def _connect(address: str, token: str | None) -> tuple[Store, str]:
    url, separator, name = address.rpartition("#")
    if not (url and separator and name):
        raise PlanError(
            f"{without_password(address)!r} is not the address of a stream. Write the store, #, and the name: "
            "sqlite:///shop.db#orders."
        )
    return connect(url, token=token), name
