"""The state of calls that span bundles: what the operator behind them saves, with the rows in flight beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from eventide.errors import state as errors
from eventide.operators.call_queue import CallQueue
from eventide.operators.inputs import restored_tracker
from eventide.operators.operator import StreamOperator
from eventide.operators.saving import CALLS, State, check
from eventide.plan.fingerprint import fingerprint
from eventide.state import snapshot
from eventide.state.blocks import KnownBlocks, read_blocks, write_blocks
from eventide.state.paging import Ledger, Pages, Writer


@dataclass(frozen=True)
class Held:
    """The state of the operator behind the calls, and the rows of each input that have not reached it."""

    inner: State
    queues: tuple[CallQueue, ...]


class SavedCalls:
    """What calls that span bundles do with their state between bundles. ``inner`` is the operator behind them."""

    plan: Any
    inner: StreamOperator
    schemas: tuple[dict[str, pl.DataType], ...]

    @property
    def state_facts(self) -> Mapping[str, str]:
        """What a state in pages depends on, in words."""
        return {**self.inner.state_facts, **self._facts}

    def save(self, state: State) -> bytes:
        """The state as bytes, with the columns of the rows as they arrive."""
        content = snapshot.load(self.inner.save(state.store.inner))
        rows = [pl.DataFrame(schema=schema) for schema in self.schemas]
        return snapshot.dump(content | {CALLS: self._saved(state) | {"rows": rows}})

    def restored(self, calls: Mapping[str, Any], inner: State) -> State:
        """The state of these calls and of the operator behind them. Another plan is rejected, with what has changed."""
        check(calls["facts"], self._facts)
        tracker = restored_tracker(self.plan, calls["tracker"])
        saved = zip(calls["queues"], self.schemas, self.inner.schemas, strict=True)
        queues = tuple(CallQueue.restore(queue).bound_to(before, after) for queue, before, after in saved)
        return State(tracker, inner.watermark, calls["now"], Held(inner, queues), inner.position)

    def write(self, state: State, pages: Pages, ledger: Ledger | None) -> tuple[bytes, Ledger]:
        """Put what is new since ``ledger`` into pages; gives the head and the new ledger."""
        head, inner = self.inner.write(state.store.inner, pages, ledger)
        writer = Writer(pages, inner.next)
        before: KnownBlocks | None = None if ledger is None else ledger.tables.get(CALLS)
        calls, known = write_blocks(self._saved(state), before, writer)
        writer.finish()
        head = snapshot.dump(snapshot.load(head) | {CALLS: calls, "next": writer.next}, compression="lz4")
        written = inner.written + writer.written
        return head, replace(inner, next=writer.next, tables={**inner.tables, CALLS: known}, written=written)

    def read(self, head: bytes, pages: Pages, near: tuple[State, Ledger] | None = None) -> tuple[State, Ledger]:
        """The state that was written."""
        blocks, rest = divided(head)
        before = None if near is None else (near[0].store.inner, near[1])
        inner, ledger = self.inner.read(rest, pages, before)
        with ledger.open(pages):
            calls, known = read_blocks(blocks, ledger.shelf)
        return self.restored(calls, inner), replace(ledger, tables={**ledger.tables, CALLS: known})

    def let_go(self, state: State, ledger: Ledger, *, keep: int = 0) -> State:
        """The state with about ``keep`` bytes in memory of what can be fetched again. Rows in flight stay."""
        held: Held = state.store
        return replace(state, store=replace(held, inner=self.inner.let_go(held.inner, ledger, keep=keep)))

    def sizes(self, state: State, ledger: Ledger | None = None) -> dict[str, int]:
        """How large the state is."""
        held: Held = state.store
        sizes = self.inner.sizes(held.inner, ledger)
        in_flight = [frame for queue in held.queues for frame in (queue.waiting, queue.answered)]
        known: KnownBlocks = (ledger or Ledger()).tables.get(CALLS, KnownBlocks())
        return sizes | {
            "rows": sizes["rows"] + sum(frame.height for frame in in_flight),
            "raw": sizes["raw"] + sum(int(frame.estimated_size()) for frame in in_flight),
            "pages": sizes["pages"] + len(known.all()),
            "bytes": sizes["bytes"] + sum(page.size for page in known.all()),
        }

    @property
    def _facts(self) -> dict[str, str]:
        calls = [call for edge in self.plan.edges for call in edge.calls if call.options.across_bundles]
        columns = [f"{name}: {dtype}" for call in calls for name, dtype in call.output.items()]
        return {**fingerprint(self.plan), "calls": f"across bundles, for {', '.join(columns)}"}

    def _saved(self, state: State) -> dict[str, Any]:
        queues = [queue.saved() for queue in state.store.queues]
        return {"facts": self._facts, "tracker": state.tracker.snapshot(), "now": state.now, "queues": queues}


def divided(saved: bytes) -> tuple[dict[str, Any], bytes]:
    """A state, or the head of one in pages: the part of the calls, and that of the operator behind them."""
    content = snapshot.load(saved)
    if CALLS not in content:
        raise errors.spanning_changed(added=True)
    calls = content.pop(CALLS)
    return calls, snapshot.dump(content)


def schemas_of(calls: Mapping[str, Any]) -> list[pl.Schema]:
    """The columns of the rows of each input, as they were when the state was saved as a whole."""
    if "rows" not in calls:
        raise errors.not_whole()
    return [frame.schema for frame in calls["rows"]]
