"""What state holds by key: the largest keys, and the windows that ``.limit_state`` closes next.

Pages name their columns, and the stored plan its key and its limits, so this needs no pipeline.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeAlias

import polars as pl

from eventide import _columns as c
from eventide.kernels.frames import sizes
from eventide.metrics import instant_text
from eventide.operators.retention import SIZE, TOTAL, closing_order
from eventide.panes import WINDOW, window_bounds
from eventide.plan.fingerprint import counts_rows, stored_limits
from eventide.state.operator_state import codec_of
from eventide.state.pages import InlineCodec, PageReader, PageStore

MOST_KEYS = 10
"""How many keys, and windows of each limit, are listed."""

_Tables: TypeAlias = Mapping[str, Sequence[pl.DataFrame]]

_WINDOWS, _SLICES = "table", "cells"
_BUFFERS = ("left", "right")  # rows of a join that wait for partners
_ENTRIES = (_WINDOWS, _SLICES, *_BUFFERS, "state", "timers")  # other tables only count in bytes
_ENTRY, _COUNT, _BYTES, _BUCKET = "__entry", "__count", "__bytes", "__bucket"
_ROOM = "room"
_SIZES = {"entries": _COUNT, "rows": c.ROWS, "bytes": _BYTES}
_LARGEST = {"key": pl.Null(), **dict.fromkeys(_SIZES, pl.Int64())}
_CLOSES = {**dict.fromkeys(("key", *WINDOW), pl.Null()), "limit": pl.String(), _ROOM: pl.Int64()}


@dataclass(frozen=True)
class KeySizes:
    """The keys in the state of an operator. ``key`` is a struct of the key columns, null for a plan without a key."""

    count: int  # 0: the plan has no key, or nothing is stored
    largest: pl.DataFrame  # key, entries, rows, bytes
    closes_next: pl.DataFrame | None  # key, window_start, window_end, limit, room; None without .limit_state

    def lines(self) -> list[str]:
        """Return a line for each listed key and window."""
        lines = [f"keys       {self.count:,} in state"] if self.count else []
        for row in self.largest.iter_rows(named=True):
            sizes_text = ", ".join(f"{name} {row[name]:,}" for name in _SIZES if row[name] is not None)
            lines.append(f"key        {key_text(row['key'])}: {sizes_text}")
        for row in [] if self.closes_next is None else self.closes_next.iter_rows(named=True):
            window = " to ".join(bound_text(row[name]) for name in WINDOW)
            after = f"after more than {row[_ROOM]:,} {row['limit']}"
            lines.append(f"next       {key_text(row['key'])}: {window}, {after}")
        return lines


NO_KEYS = KeySizes(0, pl.DataFrame(schema=_LARGEST), None)


def key_sizes(plan: Mapping[str, Any], buckets: Iterable[tuple[Mapping[str, Any], PageStore]]) -> KeySizes:
    """Return the keys in the state of an operator: the header and the pages of each of its buckets.

    ``plan`` is the page that describes the plan.
    """
    tables: dict[str, list[pl.DataFrame]] = {}
    for number, (head, pages) in enumerate(buckets):
        for name, frames in _stored_tables(head, pages).items():
            bucket = pl.lit(number, pl.Int32).alias(_BUCKET)
            tables.setdefault(name, []).extend(frame.with_columns(bucket) for frame in frames)
    key = _key_of(plan, tables)
    by_key = _by_key(tables, key) if key else None
    closes_next = _closes_next(plan["plan"], tables.get(_WINDOWS, []), key)
    if by_key is None:
        return replace(NO_KEYS, closes_next=closes_next)
    return KeySizes(by_key.height, _largest(by_key, key), closes_next)


def key_text(key: Mapping[str, Any] | None) -> str:
    """Return a key as text.

    >>> key_text({"shop": "kiel", "till": None}), key_text(None)
    ('shop=kiel, till=null', 'all rows')
    """
    return "all rows" if key is None else ", ".join(f"{name}={_value_text(value)}" for name, value in key.items())


def _value_text(value: Any) -> str:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return instant_text(value)
    return "null" if value is None else str(value)


def bound_text(bound: datetime | int | None) -> str:
    """Return a bound of a window as text.

    >>> bound_text(41), bound_text(None)
    ('41', 'unbounded')
    """
    return "unbounded" if bound is None else str(bound) if isinstance(bound, int) else instant_text(bound)


def _stored_tables(head: Mapping[str, Any], pages: PageStore) -> dict[str, list[pl.DataFrame]]:
    reader = PageReader()
    codecs = {name: codec_of(table) for name, table in head["store"].items()}
    with reader.attach(pages):
        return {
            name: codec.save(codec.read(head["store"][name], reader)[0])
            for name, codec in codecs.items()
            if not isinstance(codec, InlineCodec)
        }


def _key_of(plan: Mapping[str, Any], tables: _Tables) -> list[str]:
    """Return the columns of the key. Pages name those by which state is divided, which row sessions have none of."""
    columns = {name for frames in tables.values() for frame in frames for name in frame.columns}
    named = plan.get("key") or plan["plan"].get("key", "").split(", ")
    return [name for name in named if name in columns]


def _by_key(tables: _Tables, key: Sequence[str]) -> pl.DataFrame:
    """Return entries, rows and bytes of each key. The parts of a slice in several runs are one entry."""
    parts = []
    for name, frames in tables.items():
        if not frames or not set(key) <= set(frames[0].columns):
            continue
        entry = pl.col(c.SLICE) if name == _SLICES else pl.lit(None, pl.Int64)
        rows = pl.col(c.ROWS) if name in (_WINDOWS, _SLICES) else pl.lit(1 if name in _BUFFERS else None, pl.Int64)
        table = pl.concat(
            frame.select(
                *key,
                entry.alias(_ENTRY),
                rows.cast(pl.Int64).alias(c.ROWS),
                sizes({column: dtype for column, dtype in frame.schema.items() if column != _BUCKET}).alias(_BYTES),
            )
            for frame in frames
        )
        entries = pl.col(_ENTRY).n_unique() if name == _SLICES else pl.len() if name in _ENTRIES else pl.lit(0)
        counts = entries.cast(pl.Int64).alias(_COUNT), *_sums(c.ROWS, _BYTES)
        parts.append(table.group_by(key).agg(counts))
    return pl.concat(parts).group_by(key).agg(_sums(_COUNT, c.ROWS, _BYTES))


def _sums(*names: str) -> list[pl.Expr]:
    """Sums that are null if every value is."""
    return [pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum()).alias(name) for name in names]


def _largest(by_key: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    descending = [True, *(False for _ in key)]
    largest = by_key.sort([_BYTES, *key], descending=descending, nulls_last=True).head(MOST_KEYS)
    return largest.select(_key_column(key), *(pl.col(column).alias(name) for name, column in _SIZES.items()))


def _closes_next(facts: Mapping[str, str], frames: Sequence[pl.DataFrame], key: Sequence[str]) -> pl.DataFrame | None:
    """Return the windows that more rows or bytes than ``room`` close: the next of each key, and the next of all."""
    limits = stored_limits(facts)
    if limits is None:
        return None
    closing: list[pl.DataFrame] = []
    window = [*key, c.START, c.END]
    if frames and limits.rows is not None:
        oldest = closing_order(pl.concat(frame.select(*window, c.ROWS) for frame in frames), c.ROWS, within=key)
        oldest = oldest.group_by(key, maintain_order=True).last() if key else oldest.tail(1)
        closing.append(oldest.select(*window, *_room("rows", limits.rows)))
    if frames and limits.bytes is not None:
        panes = pl.concat(frame.select(*window, SIZE, _BUCKET) for frame in frames)
        oldest = closing_order(panes, SIZE, key=key, within=[_BUCKET])
        closing.append(oldest.select(*window, *_room("bytes", limits.bytes)))
    if not closing:
        return pl.DataFrame(schema=_CLOSES)
    listed = pl.concat(part.sort(_ROOM, c.END, c.START, maintain_order=True).head(MOST_KEYS) for part in closing)
    return listed.select(_key_column(key), *window_bounds(by_row=counts_rows(facts)), "limit", _ROOM)


def _room(limit: str, most: int) -> list[pl.Expr]:
    return [pl.lit(limit).alias("limit"), (most - pl.col(TOTAL)).alias(_ROOM)]


def _key_column(key: Sequence[str]) -> pl.Expr:
    return (pl.struct(*key) if key else pl.lit(None)).alias("key")
