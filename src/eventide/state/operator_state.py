"""The state of an operator, and how it is stored: whole, or as a small header and pages that are written once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, Self

import polars as pl

from eventide.state.block_codec import read_blocks, write_blocks
from eventide.state.cell_table import CellCodec
from eventide.state.errors import calls_changed, not_a_header, not_whole, plan_changed, plan_changes, spanning_changed
from eventide.state.format import dump, load
from eventide.state.pages import InlineCodec, Manifest, Page, PageStore, PageWriter, TableCodec, TableSizes
from eventide.state.pane_log import PaneCodec
from eventide.state.pane_table import PaneTable
from eventide.watermarks import AnyTracker

if TYPE_CHECKING:
    from eventide.plan.plan import Plan

WITH_CALLS = "with calls"
"""The kind of a state with asynchronous calls in front of the operator."""
CALLS = "calls"
"""The entry for rows in flight of calls that span bundles, and the watermarks that wait behind them."""

_TRACKER = "tracker"  # the entry of a manifest for the watermark tracker


@dataclass(frozen=True)
class State:
    """Everything that an operator knows between two bundles."""

    tracker: AnyTracker
    watermark: int
    now: int
    store: Any
    position: int = 0  # rows of the stream so far, for windows that count rows
    ids: Mapping[str, PaneTable] = field(default_factory=dict)  # row ids, where duplicates are dropped


class StatefulTables(Protocol):
    """The tables of a store, and how each is encoded."""

    @property
    def codecs(self) -> Mapping[str, TableCodec]:
        """The codec of each table."""
        ...

    def tables(self, store: Any) -> tuple[dict[str, Any], int]:
        """Return the tables of the store, and the processing time up to which timers have fired."""
        ...

    def store(self, tables: Mapping[str, Any], clock: int) -> Any:
        """Return the store with these tables."""
        ...


class StateSerializer:
    """Stores and reads the states of one operator.

    ``facts`` is the fingerprint of the plan. ``columns`` names the columns of each input that the plan reads; other
    columns of ``schemas`` may change between two starts. ``key`` names the columns by which a state can be divided
    into buckets. ``ids`` has the codecs of the tables of row ids.
    """

    def __init__(
        self,
        facts: Mapping[str, str],
        schemas: Sequence[Mapping[str, pl.DataType]],
        columns: Sequence[AbstractSet[str]],
        restore_tracker: Callable[[dict[str, Any]], AnyTracker],
        tables: StatefulTables,
        key: Sequence[str] = (),
        ids: Mapping[str, TableCodec] | None = None,
    ) -> None:
        self._facts = dict(facts)
        self._ids = dict(ids or {})
        self._codecs = {**tables.codecs, **self._ids}
        no_rows = [pl.DataFrame(schema=schema) for schema in schemas]
        self._rows = no_rows[0] if len(no_rows) == 1 else no_rows
        self._restore_tracker = restore_tracker
        self._stateful = tables
        self._key = list(key)
        self._plan = self._facts | _column_types(schemas, columns)
        self._plan_hash = hashlib.blake2b(json.dumps(self._plan, sort_keys=True).encode(), digest_size=16).hexdigest()

    @property
    def facts(self) -> dict[str, str]:
        """The parts of the plan and the column types that a state in pages depends on."""
        return dict(self._plan)

    def save(self, state: State) -> bytes:
        """Encode the whole state."""
        tables, clock = self._tables(state)
        store = {name: codec.save(tables[name]) for name, codec in self._codecs.items()}
        content = {"kind": "whole", "plan": self._facts, "rows": self._rows}
        return dump(content | _small_parts(state, clock) | {"store": store})

    def load(self, content: dict[str, Any]) -> State:
        """Return the state of ``save``."""
        check_plan(content["plan"], self._facts)
        tables = {name: codec.load(content["store"][name]) for name, codec in self._codecs.items()}
        return self._state(content, tables)

    def write(self, state: State, pages: PageStore, manifest: Manifest | None) -> tuple[bytes, Manifest]:
        """Write what is new since ``manifest``, and drop obsolete pages. Returns the header and the new manifest."""
        manifest = manifest or Manifest()
        writer = PageWriter(pages, manifest.next_page)
        plan = manifest.plan or writer.put({"plan": self._plan, "rows": self._rows, "key": self._key})
        tables, clock = self._tables(state)
        heads, stored = {}, {}
        with manifest.open(pages):
            for name, codec in self._codecs.items():
                before = manifest.tables.get(name)
                heads[name], stored[name] = codec.write(tables[name], before, writer, manifest.reader)
        parts = _small_parts(state, clock)
        parts["tracker"], stored[_TRACKER] = write_blocks(parts["tracker"], manifest.tables.get(_TRACKER), writer)
        writer.finish()
        content = {"kind": "head", "plan": [self._plan_hash, *vars(plan).values()], "next": writer.next_page}
        header = dump(content | parts | {"store": heads}, compression="lz4")
        return header, Manifest(writer.next_page, plan, stored, writer.written + len(header), manifest.reader)

    def read(
        self, header: bytes, pages: PageStore, cached: tuple[State, Manifest] | None = None
    ) -> tuple[State, Manifest]:
        """Return the state of ``write``. ``cached`` is an older version of it: then only new pages are fetched."""
        content = load(header)
        if content.get("kind") != "head":
            raise not_a_header()
        if CALLS in content:
            raise spanning_changed(added=False)
        plan_hash, *fields = content["plan"]
        manifest = Manifest(content["next"], Page(*fields))
        reader, heads = manifest.reader, content["store"]
        with manifest.open(pages):
            if plan_hash != self._plan_hash:
                check_plan(reader.fetch(Page(*fields))["plan"], self._plan)
            content["tracker"], tracker = read_blocks(content["tracker"], reader)
            if cached is None:
                tables = {name: codec.read(heads[name], reader) for name, codec in self._codecs.items()}
            else:
                old, before = self._tables(cached[0])[0], cached[1].tables
                tables = {
                    name: codec.refresh(old[name], before[name], heads[name], reader)
                    for name, codec in self._codecs.items()
                }
        state = self._state(content, {name: table for name, (table, _) in tables.items()})
        stored = {name: stored for name, (_, stored) in tables.items()} | {_TRACKER: tracker}
        return state, replace(manifest, tables=stored)

    def evict(self, state: State, manifest: Manifest, keep: int) -> State:
        """Return the state with at most about ``keep`` bytes in memory of what can be fetched again."""
        tables, clock = self._tables(state)
        left = {
            name: codec.evict(tables[name], manifest.tables[name], manifest.reader, keep)
            for name, codec in self._codecs.items()
        }
        return replace(state, store=self._stateful.store(left, clock), ids=self._id_tables(left))

    def sizes(self, state: State, manifest: Manifest | None) -> dict[str, int]:
        """Return the size of the state."""
        manifest = manifest or Manifest()
        tables, _ = self._tables(state)
        parts = [codec.sizes(tables[name], manifest.tables.get(name)) for name, codec in self._codecs.items()]
        pages = [*manifest.tables[_TRACKER].all()] if _TRACKER in manifest.tables else []
        pages += [manifest.plan] if manifest.plan else []
        others = TableSizes(pages=len(pages), bytes=sum(page.size for page in pages))
        return vars(sum(parts, others)) | {"written": manifest.written}

    def _state(self, content: dict[str, Any], tables: Mapping[str, Any]) -> State:
        tracker = self._restore_tracker(content["tracker"])
        store = self._stateful.store(tables, content["clock"])
        ids = self._id_tables(tables)
        return State(tracker, content["watermark"], content["now"], store, content["position"], ids)

    def _tables(self, state: State) -> tuple[dict[str, Any], int]:
        tables, clock = self._stateful.tables(state.store)
        return {**tables, **state.ids}, clock

    def _id_tables(self, tables: Mapping[str, Any]) -> dict[str, PaneTable]:
        return {name: tables[name] for name in self._ids}


class SerializedOperator:
    """The part of an operator's contract that its serializer fulfils."""

    _serializer: StateSerializer

    @property
    def state_facts(self) -> Mapping[str, str]:
        """The parts of the plan and the column types that a state in pages depends on."""
        return self._serializer.facts

    def save(self, state: State) -> bytes:
        """Encode the whole state. ``load`` continues from it, in this process or another."""
        return self._serializer.save(state)

    @classmethod
    def load(cls, plan: Plan, saved: bytes) -> tuple[Self, State]:
        """Return the operator and the state of ``save``. Rejects another plan, with what has changed."""
        content = load_whole(saved)
        operator = cls(plan, *schemas_in(content))  # type: ignore[call-arg]  # every operator is built like this
        return operator, operator._serializer.load(content)

    def write(self, state: State, pages: PageStore, manifest: Manifest | None) -> tuple[bytes, Manifest]:
        """Write what is new since ``manifest``, and drop obsolete pages. Returns the header and the new manifest.

        ``manifest`` belongs to the state that the bundle began with; None before the first write. It does not change,
        so a failed write can be repeated.
        """
        return self._serializer.write(state, pages, manifest)

    def read(
        self, header: bytes, pages: PageStore, cached: tuple[State, Manifest] | None = None
    ) -> tuple[State, Manifest]:
        """Return the state of ``write``. Rejects another plan or format, with what has changed.

        ``cached`` is an older version of the same state with its manifest: then only new pages are fetched.

        Run steps on it inside ``with manifest.open(pages)``: cells stay in their pages until they are needed.
        """
        return self._serializer.read(header, pages, cached)

    def evict(self, state: State, manifest: Manifest, *, keep: int = 0) -> State:
        """Return the state with at most about ``keep`` bytes in memory of what can be fetched again."""
        return self._serializer.evict(state, manifest, keep)

    def sizes(self, state: State, manifest: Manifest | None = None) -> dict[str, int]:
        """Return open ``rows``, ``runs`` in memory, ``pages``, their ``bytes``, and bytes ``written`` last."""
        return self._serializer.sizes(state, manifest)


def schemas_in(content: Mapping[str, Any]) -> list[pl.Schema]:
    """Return the schema of each input at the time when the state was saved."""
    rows = content["rows"]
    return [frame.schema for frame in (rows if isinstance(rows, list) else [rows])]


def codec_of(table: Mapping[str, Any]) -> TableCodec:
    """Return how a table was written, from its entry in a header. No plan is needed.

    The columns by which an operator finds its panes do not matter: pages have no hashes.
    """
    if "least" in table:
        return CellCodec(table["by"])
    return PaneCodec(()) if "born" in table else InlineCodec()


def load_whole(saved: bytes) -> dict[str, Any]:
    """Decode a state that was saved whole, before its operator is built."""
    content = load(saved)
    if content.get("kind") == WITH_CALLS:
        raise calls_changed(added=False)
    if content.get("kind") != "whole":
        raise not_whole()
    if CALLS in content:
        raise spanning_changed(added=False)
    return content


def check_plan(stored: Mapping[str, str], current: Mapping[str, str]) -> None:
    """Reject the state of another plan, with what has changed."""
    if stored != current:
        raise plan_changed(plan_changes(stored, current))


def _column_types(schemas: Sequence[Mapping[str, pl.DataType]], columns: Sequence[AbstractSet[str]]) -> dict[str, str]:
    """Return the types of the columns that the plan reads, in an order that does not depend on that of the schema."""
    several = len(schemas) > 1
    return {
        f"column {name} of input {number}" if several else f"column {name}": str(schemas[number - 1][name])
        for number, names in enumerate(columns, 1)
        for name in sorted(names)
    }


def _small_parts(state: State, clock: int) -> dict[str, Any]:
    return {
        "watermark": state.watermark,
        "now": state.now,
        "position": state.position,
        "clock": clock,
        "tracker": state.tracker.snapshot(),
    }
