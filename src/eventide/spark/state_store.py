"""A bucket's state in Spark's state store, and a cache of it in each Python worker.

A bucket has a header and pages. Small pages are stored in the header, others in a map of Spark's state.

Python workers survive a batch, so states stay in memory under the version in the header. The version is part of state:
a task that was retried, or ran on another worker meanwhile, never uses a stale state. A worker that missed some batches
has a version from which the stored one was derived, and reads only the new pages.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from eventide.spark.shuffle_pages import Stage, Task
from eventide.state.errors import other_buckets
from eventide.state.format import StateHeader
from eventide.state.operator_state import State
from eventide.state.pages import Manifest

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import MapState, ValueState

LIMIT = 1 << 15
"""The most bytes of pages in a header.

Every batch reads and writes the header, so its pages must be few. The map costs more than this much data: Spark
generates code for it, and calls it for the first time, in every task that uses it.
"""

_MAX_VERSIONS = 64  # earlier versions in a header
_CACHE_BYTES = 1 << 29  # panes and cells in the cache of a worker; indexes are not counted

BucketId: TypeAlias = tuple[str, str, int]  # run of the query, operator, bucket


class SparkPageStore:
    """The pages of one bucket, for one batch.

    A new page is put into the header, and most pages are dropped from there: bundles are small, and their pages are
    merged. When the header is full, the largest pages move to the map until it is half empty. So a state of about this
    size does not use the map in every batch.
    """

    def __init__(self, page_map: Callable[[], MapState], in_header: Mapping[int, bytes] | None = None) -> None:
        self._page_map = page_map
        self._in_header = dict(in_header or {})
        self.moved = 0  # bytes that this batch has put into the map

    def get(self, page: int) -> bytes:
        """Return the body of a page."""
        if page in self._in_header:
            return self._in_header[page]
        value = self._page_map().getValue((page,))
        return bytes(value[0]) if value else b""

    def put(self, page: int, body: bytes) -> None:
        """Store a page. A large one moves to the map at once, to free its memory."""
        self._in_header[page] = body
        if len(body) > LIMIT:
            self._move(page)

    def drop(self, page: int) -> None:
        """Delete a page."""
        if self._in_header.pop(page, None) is None:
            self._page_map().removeKey((page,))

    def flush(self) -> dict[int, bytes]:
        """Move pages to the map while there are too many, and return those in the header. Call it after a batch."""
        size = sum(map(len, self._in_header.values()))
        if size > LIMIT:
            for page in sorted(self._in_header, key=lambda number: (-len(self._in_header[number]), number)):
                if size <= LIMIT // 2:
                    break
                size -= len(self._in_header[page])
                self._move(page)
        return dict(self._in_header)

    def _move(self, page: int) -> None:
        body = self._in_header.pop(page)
        self._page_map().updateValue((page,), (body,))
        self.moved += len(body)


@dataclass(frozen=True)
class BucketState:
    """One version of a bucket's state."""

    version: str
    state: State
    manifest: Manifest | None = None
    output_watermarks: dict[str, int] = field(default_factory=dict)  # of the previous operator: by bucket or bucket/key
    ancestors: tuple[str, ...] = ()  # the last versions from which this one was derived
    size: int = 0


class BucketStateStore:
    """Reads and writes the state of the bucket that Spark's task is processing."""

    def __init__(
        self, header: ValueState, page_map: Callable[[], MapState], stage: Stage, *, tracks_all: bool = False
    ) -> None:
        self._header = header
        self._tracks_all = tracks_all  # the state is only the tracker of an operator, for all of its buckets
        self._page_map = page_map
        self._stage = stage
        self.pages = SparkPageStore(page_map)

    def read(self, bucket: int, task: Task) -> tuple[BucketState, bool]:
        """Return the state of a bucket, and whether it was in the cache."""
        value = self._header.get()
        if value is None:
            return BucketState("", self._stage.operator().initial()), False
        version, facts_json, body = value
        header = StateHeader.from_bytes(bytes(body))
        self.pages = SparkPageStore(self._page_map, header.inline_pages)
        bucket_id = (task.run, self._stage.name, bucket)
        cached = _cache.get(bucket_id, version)
        if cached is not None:
            return cached, True
        facts = json.loads(facts_json)
        if facts["buckets"] != self._stage.buckets:
            raise other_buckets(facts["buckets"], self._stage.buckets)
        nearest = _cache.nearest(bucket_id, facts["ancestors"])
        state, manifest = self._stage.operator().read(header.body, self.pages, nearest)
        return BucketState(version, state, manifest, facts["output_watermarks"], tuple(facts["ancestors"])), False

    def write(
        self, bucket: int, task: Task, before: BucketState, state: State, output_watermarks: dict[str, int]
    ) -> dict[str, int]:
        """Write the state after a batch, and return its sizes."""
        operator = self._stage.operator()
        body, manifest = operator.write(state, self.pages, before.manifest)
        sizes, in_header = operator.sizes(state, manifest), self.pages.flush()
        header = StateHeader(body, in_header, sizes["pages"] - len(in_header)).to_bytes()
        version = f"{task.batch}.{task.attempt}"
        ancestors = (*before.ancestors, before.version)[-_MAX_VERSIONS:] if before.version else ()
        facts = header_facts(
            self._stage.buckets, self._stage.depth, output_watermarks, ancestors, tracks_all=self._tracks_all
        )
        self._header.update((version, facts, header))
        after = BucketState(version, state, manifest, output_watermarks, ancestors, sizes["raw"])
        _cache.put((task.run, self._stage.name, bucket), after)
        written = self.pages.moved + len(header)
        return {"pages": sizes["pages"], "state_bytes": sizes["bytes"] + len(body), "written": written}


def header_facts(
    buckets: int,
    depth: int,
    output_watermarks: Mapping[str, int] | None = None,
    ancestors: Sequence[str] = (),
    *,
    tracks_all: bool = False,
) -> str:
    """Return what a header says of its bucket, as JSON. ``tracks_all``: it is the tracker of all buckets instead."""
    facts = {"buckets": buckets, "depth": depth, "output_watermarks": output_watermarks or {}, "ancestors": ancestors}
    return json.dumps(facts | ({"tracks_all": True} if tracks_all else {}))


class StateCache:
    """States of buckets in this process: the last used ones, up to a number of bytes.

    The last two versions of each bucket are cached, because a retried batch starts from the earlier one.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._states: OrderedDict[BucketId, list[BucketState]] = OrderedDict()

    def get(self, bucket: BucketId, version: str) -> BucketState | None:
        """Return the state of this version, if it is cached."""
        for state in self._states.get(bucket, ()):
            if state.version == version:
                self._states.move_to_end(bucket)
                return state
        return None

    def nearest(self, bucket: BucketId, ancestors: Sequence[str]) -> tuple[State, Manifest] | None:
        """Return the latest cached state whose version is one of ``ancestors``."""
        candidates = [state for state in self._states.get(bucket, ()) if state.version in ancestors]
        latest = max(candidates, key=lambda state: ancestors.index(state.version), default=None)
        return None if latest is None or latest.manifest is None else (latest.state, latest.manifest)

    def put(self, bucket: BucketId, state: BucketState) -> None:
        """Cache a state, and evict the least recently used ones."""
        self._states[bucket] = [*self._states.get(bucket, ())[-1:], state]
        self._states.move_to_end(bucket)
        while len(self._states) > 1 and sum(states[-1].size for states in self._states.values()) > self._max_bytes:
            self._states.popitem(last=False)


_cache = StateCache(_CACHE_BYTES)
