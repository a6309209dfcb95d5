"""An operator's state as bytes: all of it at once, or a small head and pages of which only new ones are written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Protocol

import polars as pl

from eventide.errors import state as errors
from eventide.state import snapshot
from eventide.state.blocks import read_blocks, write_blocks
from eventide.state.paging import Form, Ledger, Page, Pages, Sizes, Writer
from eventide.watermarks import AnyTracker

_TRACKER = "tracker"  # beside the tables of a ledger: what of the watermark's state lies in pages
WITH_CALLS = "with calls"  # the kind of a state whose rows are asked about before they reach the operator
CALLS = "calls"  # beside a state: the rows in flight of calls that span bundles, and the watermarks behind them


@dataclass(frozen=True)
class State:
    """All that the operator knows between bundles."""

    tracker: AnyTracker
    watermark: int
    now: int
    store: Any
    position: int = 0  # rows of the whole stream so far, for windows counted in rows


class Kept(Protocol):
    """What knows the tables of a store, and how they are written."""

    @property
    def forms(self) -> Mapping[str, Form]:
        """How each table is written."""
        ...

    def tables(self, store: Any) -> tuple[dict[str, Any], int]:
        """The tables of the store, and the clock up to which they have been looked at."""
        ...

    def store(self, tables: Mapping[str, Any], clock: int) -> Any:
        """The store of these tables."""
        ...


class Saving:
    """Saves the states of one operator.

    ``facts`` and ``columns`` are what the states depend on: the parts of the plan in words, and for each input the
    names of the columns that the plan reads. Other columns of ``schemas`` may differ between two starts. ``key`` names
    the columns by which a state can be divided; without any it cannot.
    """

    def __init__(
        self,
        facts: Mapping[str, str],
        schemas: Sequence[Mapping[str, pl.DataType]],
        columns: Sequence[AbstractSet[str]],
        tracker: Callable[[dict[str, Any]], AnyTracker],
        inner: Kept,
        key: Sequence[str] = (),
    ) -> None:
        self._facts = dict(facts)
        empty = [pl.DataFrame(schema=schema) for schema in schemas]
        self._rows = empty[0] if len(empty) == 1 else empty
        self._tracker = tracker
        self._inner = inner
        self._key = list(key)
        self._plan = self._facts | _column_types(schemas, columns)
        words = json.dumps(self._plan, sort_keys=True).encode()
        self._print = hashlib.blake2b(words, digest_size=16).hexdigest()

    @property
    def facts(self) -> dict[str, str]:
        """What a state in pages depends on, in words."""
        return dict(self._plan)

    def save(self, state: State) -> bytes:
        """All of it."""
        tables, clock = self._inner.tables(state.store)
        store = {name: form.save(tables[name]) for name, form in self._inner.forms.items()}
        about = {"plan": self._facts, "rows": self._rows}
        return snapshot.dump({"kind": "whole"} | about | _told(state, clock) | {"store": store})

    def load(self, content: dict[str, Any]) -> State:
        """The state that was saved."""
        check(content["plan"], self._facts)
        tables = {name: form.load(content["store"][name]) for name, form in self._inner.forms.items()}
        return self._state(content, tables)

    def write(self, state: State, pages: Pages, ledger: Ledger | None) -> tuple[bytes, Ledger]:
        """Put what is new since ``ledger``, drop what is gone."""
        ledger = ledger or Ledger()
        writer = Writer(pages, ledger.next)
        plan = ledger.plan or writer.put({"plan": self._plan, "rows": self._rows, "key": self._key})
        tables, clock = self._inner.tables(state.store)
        heads, known = {}, {}
        with ledger.open(pages):
            for name, form in self._inner.forms.items():
                heads[name], known[name] = form.write(tables[name], ledger.tables.get(name), writer, ledger.shelf)
        told = _told(state, clock)
        told["tracker"], known[_TRACKER] = write_blocks(told["tracker"], ledger.tables.get(_TRACKER), writer)
        writer.finish()
        content = {"kind": "head", "plan": [self._print, *vars(plan).values()], "next": writer.next}
        head = snapshot.dump(content | told | {"store": heads}, compression="lz4")
        return head, Ledger(writer.next, plan, known, writer.written + len(head), ledger.shelf)

    def read(self, head: bytes, pages: Pages, near: tuple[State, Ledger] | None = None) -> tuple[State, Ledger]:
        """The state that was written; from one that was written some bundles before, where there is one at hand."""
        content = snapshot.load(head)
        if content.get("kind") != "head":
            raise errors.not_a_head()
        if CALLS in content:
            raise errors.spanning_changed(added=False)
        written, *page = content["plan"]
        ledger = Ledger(content["next"], Page(*page))
        with ledger.open(pages):
            if written != self._print:
                check(ledger.shelf.fetch(Page(*page))["plan"], self._plan)
            heads, shelf = content["store"], ledger.shelf
            content["tracker"], tracker = read_blocks(content["tracker"], shelf)
            if near is None:
                found = {name: form.read(heads[name], shelf) for name, form in self._inner.forms.items()}
            else:
                tables, before = self._inner.tables(near[0].store)[0], near[1].tables
                found = {
                    name: form.catch_up(tables[name], before[name], heads[name], shelf)
                    for name, form in self._inner.forms.items()
                }
        state = self._state(content, {name: table for name, (table, _) in found.items()})
        known = {name: known for name, (_, known) in found.items()} | {_TRACKER: tracker}
        return state, Ledger(ledger.next, ledger.plan, known, 0, shelf)

    def let_go(self, state: State, ledger: Ledger, keep: int) -> State:
        """The state with at most about ``keep`` bytes in memory of what can be fetched again."""
        tables, clock = self._inner.tables(state.store)
        left = {
            name: form.let_go(tables[name], ledger.tables[name], ledger.shelf, keep)
            for name, form in self._inner.forms.items()
        }
        return State(state.tracker, state.watermark, state.now, self._inner.store(left, clock), state.position)

    def sizes(self, state: State, ledger: Ledger | None) -> dict[str, int]:
        """How large the state is."""
        ledger = ledger or Ledger()
        tables, _ = self._inner.tables(state.store)
        parts = [form.sizes(tables[name], ledger.tables.get(name)) for name, form in self._inner.forms.items()]
        pages = [*(ledger.tables[_TRACKER].all() if _TRACKER in ledger.tables else ()), *filter(None, [ledger.plan])]
        others = Sizes(pages=len(pages), bytes=sum(page.size for page in pages))
        return vars(sum(parts, others)) | {"written": ledger.written}

    def _state(self, content: dict[str, Any], tables: Mapping[str, Any]) -> State:
        tracker = self._tracker(content["tracker"])
        store = self._inner.store(tables, content["clock"])
        return State(tracker, content["watermark"], content["now"], store, content["position"])


def schemas_in(content: Mapping[str, Any]) -> list[pl.Schema]:
    """The columns of the rows of each input, as they were when the state was saved."""
    rows = content["rows"]
    return [frame.schema for frame in (rows if isinstance(rows, list) else [rows])]


def opened(saved: bytes) -> dict[str, Any]:
    """What a state that was saved whole says, before it is known whose it is."""
    content = snapshot.load(saved)
    if content.get("kind") == WITH_CALLS:
        raise errors.calls_changed(added=False)
    if content.get("kind") != "whole":
        raise errors.not_whole()
    if CALLS in content:
        raise errors.spanning_changed(added=False)
    return content


def check(was: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Reject the state of another plan, with what has changed."""
    if was != now:
        raise errors.plan_changed(errors.changes(was, now))


def _column_types(schemas: Sequence[Mapping[str, pl.DataType]], columns: Sequence[AbstractSet[str]]) -> dict[str, str]:
    """The types of the columns that the plan reads, in an order that does not depend on that of the rows."""
    several = len(schemas) > 1
    return {
        f"column {name} of input {number}" if several else f"column {name}": str(schemas[number - 1][name])
        for number, names in enumerate(columns, 1)
        for name in sorted(names)
    }


def _told(state: State, clock: int) -> dict[str, Any]:
    """What is small, and written each time."""
    return {
        "watermark": state.watermark,
        "now": state.now,
        "position": state.position,
        "clock": clock,
        "tracker": state.tracker.snapshot(),
    }
