"""Redistribution: the state of an operator, divided into another number of buckets.

This needs no pipeline: pages tell how they were written and by which columns they can be divided. The tables of all
buckets are read, their rows go to the bucket of their key, and each new bucket is written as if it were new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, Protocol, TypeAlias

import polars as pl

from eventide.processors.errors import calls_need_driver
from eventide.state import format as snapshot
from eventide.state.block_codec import read_blocks, write_blocks
from eventide.state.errors import not_a_header
from eventide.state.operator_state import CALLS, codec_of
from eventide.state.pages import InlineCodec, Page, PageReader, PageStore, PageWriter, TableCodec
from eventide.watermarks import without_origins

SplitRows: TypeAlias = Callable[[pl.DataFrame, Sequence[str], int], Sequence[pl.DataFrame]]
"""Returns the rows of each bucket. The host owns the bucket function."""

_Tables: TypeAlias = dict[str, Any]  # a list of frames or plain data by the name of the table


@dataclass
class BucketSnapshot:
    """The state of one bucket: the head that the operator wrote, and its pages in memory."""

    head: bytes = b""
    bodies: dict[int, bytes] = field(default_factory=dict)

    def get(self, page: int) -> bytes:
        """Return the body of a page."""
        return self.bodies[page]

    def put(self, page: int, body: bytes) -> None:
        """Store a page."""
        self.bodies[page] = body

    def drop(self, page: int) -> None:
        """Delete a page."""
        del self.bodies[page]

    def tracker(self) -> dict[str, Any]:
        """Return the tracker of watermarks."""
        reader = PageReader()
        with reader.attach(self):
            content: dict[str, Any] = read_blocks(snapshot.load(self.head)["tracker"], reader)[0]
        return content


class BucketStates(Protocol):
    """The state of an operator: that of each bucket, and that of the tracker of all buckets, if there is one."""

    @property
    def count(self) -> int:
        """The number of buckets."""
        ...

    @property
    def tracker(self) -> BucketSnapshot | None:
        """The state that tracks progress for all buckets, if these do not."""
        ...

    @property
    def buckets(self) -> Iterable[BucketSnapshot]:
        """The state of each bucket."""
        ...


@dataclass(frozen=True)
class Division:
    """The rows of an operator by their new bucket. A bucket is written when it is taken, and its rows are released."""

    tracker: BucketSnapshot | None
    count: int
    _whole: _Whole
    _parts: list[_Tables]

    @property
    def buckets(self) -> Iterator[BucketSnapshot]:
        """The state of each bucket, once."""
        while self._parts:
            yield _written(self._whole, self._parts.pop(0))


@dataclass(frozen=True)
class _Whole:
    """The state of all buckets together."""

    head: Mapping[str, Any]  # without its tables
    plan: dict[str, Any]
    codecs: Mapping[str, TableCodec]
    tables: _Tables


def divide(
    buckets: Iterable[tuple[bytes, PageStore]],
    count: int,
    split: SplitRows,
    *,
    tracker: BucketSnapshot | None = None,
    coalesces: Callable[[int], bool] = lambda count: False,
) -> Division:
    """Divide the state of an operator into ``count`` buckets; into one if its plan has no key to divide it by.

    ``tracker`` is the state that tracks progress for all buckets, if these do not. ``coalesces`` is called with the
    number of new buckets, and returns whether they have such a tracker; if not, each of them tracks all origins.
    An old bucket is not needed any more when the next one is taken.
    """
    whole = _merged(buckets)
    if tracker is not None:
        whole = replace(whole, head={**whole.head, "tracker": tracker.tracker()})
    key: list[str] = whole.plan["key"]
    count = count if key else 1
    parts: list[_Tables] = [{} for _ in range(count)]
    no_rows: _Tables = {}
    for name in list(whole.tables):
        table = whole.tables.pop(name)
        if isinstance(whole.codecs[name], InlineCodec):
            no_rows[name] = table
            for part in parts:
                part[name] = table
            continue
        no_rows[name] = []
        for part in parts:
            part[name] = []
        while table:
            frame = table.pop(0)
            for part, rows in zip(parts, split(frame, key, count) if count > 1 else [frame], strict=True):
                if rows.height:
                    part[name].append(rows)
    if not coalesces(count):
        return Division(None, count, whole, parts)
    reached = replace(whole, head={**whole.head, "tracker": without_origins(whole.head["tracker"])})
    return Division(_written(whole, no_rows), count, reached, parts)


def _merged(buckets: Iterable[tuple[bytes, PageStore]]) -> _Whole:
    heads: list[dict[str, Any]] = []
    codecs: dict[str, TableCodec] = {}
    tables: dict[str, list[Any]] = {}
    plan: dict[str, Any] = {}
    trackers = []
    for body, pages in buckets:
        head = snapshot.load(body)
        if head.get("kind") != "head":
            raise not_a_header()
        if CALLS in head:
            raise calls_need_driver()
        codecs = codecs or {name: codec_of(table) for name, table in head["store"].items()}
        heads.append(head)
        reader = PageReader()
        with reader.attach(pages):
            plan = plan or reader.fetch(Page(*head["plan"][1:]))
            trackers.append(read_blocks(head["tracker"], reader)[0])
            for name, codec in codecs.items():
                tables.setdefault(name, []).append(codec.save(codec.read(head["store"][name], reader)[0]))
    # Every bucket sees the summary of all rows, so their trackers agree. Should one have seen less, time waits for it.
    slowest = min(range(len(heads)), key=lambda bucket: heads[bucket]["watermark"])
    common = {
        "tracker": trackers[slowest],
        "now": max(head["now"] for head in heads),
        "position": max(head["position"] for head in heads),
        "clock": min(head["clock"] for head in heads),
    }
    whole = {name: _as_one(codecs[name], tables.pop(name)) for name in codecs}
    return _Whole(heads[slowest] | common, plan, codecs, whole)


def _as_one(codec: TableCodec, parts: Sequence[Any]) -> Any:
    """The tables of all buckets as one. A key is in one bucket only, so the order of its rows does not change."""
    if isinstance(codec, InlineCodec):
        return _least_marks(parts)
    runs = zip_longest(*parts)  # cells are merged in the order of runs, which floats depend on
    return [pl.concat([frame for frame in frames if frame is not None]) for frames in runs]


def _least_marks(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The watermarks that all buckets have sent, each by its key: what follows an operator knows the least of them."""
    sent = [dict(part["marks"]) for part in parts]
    common = [key for key in sent[0] if all(key in marks for marks in sent)]
    return {"marks": [[key, min(marks[key] for marks in sent)] for key in common]}


def _written(whole: _Whole, tables: _Tables) -> BucketSnapshot:
    state = BucketSnapshot()
    writer, reader = PageWriter(state, 1), PageReader()
    plan = writer.put(whole.plan)
    store = {
        name: codec.write(codec.load(tables[name]), None, writer, reader)[0] for name, codec in whole.codecs.items()
    }
    tracker, _ = write_blocks(whole.head["tracker"], None, writer)
    writer.finish()
    content = {
        **whole.head,
        "plan": [whole.head["plan"][0], *vars(plan).values()],
        "tracker": tracker,
        "next": writer.next_page,
        "store": store,
    }
    state.head = snapshot.dump(content, compression="lz4")
    return state
