"""A store of pages in a dict, and an operator whose state rests in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from eventide.operators.bundle import Output, Step
from eventide.operators.windowed import State, WindowedAggregate
from eventide.state import cell_pages, leaves, paging, pane_pages
from eventide.state.paging import Ledger


@dataclass
class Store:
    """Pages in a dict. What is done is counted; ``fails_after`` so many puts the store is broken."""

    pages: dict[int, bytes] = field(default_factory=dict)
    got: list[int] = field(default_factory=list)
    puts: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    fails_after: int | None = None

    def get(self, page: int) -> bytes:
        self.got.append(page)
        return self.pages[page]

    def put(self, page: int, body: bytes) -> None:
        if self.fails_after is not None and len(self.puts) >= self.fails_after:
            raise OSError("the store is broken")
        assert page not in self.pages, "a page is written once"
        self.puts.append(len(body))
        self.pages[page] = body

    def drop(self, page: int) -> None:
        self.dropped.append(page)
        del self.pages[page]

    def copy(self, fails_after: int | None = None) -> Store:
        return Store(dict(self.pages), fails_after=fails_after)


def pages_of(ledger: Ledger) -> set[int]:
    """The pages that a ledger knows."""
    found = {ledger.plan.number} if ledger.plan else set()
    for known in ledger.tables.values():
        parts = known.values() if isinstance(known, dict) else [known]
        found |= {page.number for part in parts for page in part.all()}
    return found


class Paged:
    """An operator on a store, as a host runs it: a step, a write, and the state cached or read again."""

    def __init__(self, operator: WindowedAggregate) -> None:
        self.operator = operator
        self.store = Store()
        self.state, self.ledger = operator.initial(), Ledger()
        self.head: bytes | None = None
        self.versions: list[tuple[State, Ledger]] = []  # as they were written

    def step(self, step: Callable[[State], Step[State]]) -> Output:
        """A bundle, written."""
        store = self.store.copy()
        with self.ledger.open(store):
            after = step(self.state)
        self.head, self.ledger = self.operator.write(after.state, store, self.ledger)
        self.state, self.store = after.state, store
        self.versions.append((self.state, self.ledger))
        assert set(store.pages) == pages_of(self.ledger), "the store holds what the ledger knows"
        return after.output

    def attempt(self, step: Callable[[State], Step[State]], fails_after: int | None) -> None:
        """A bundle whose write fails, or that is written and never committed."""
        store = self.store.copy(fails_after)
        with self.ledger.open(store):
            after = step(self.state)
        try:
            self.operator.write(after.state, store, self.ledger)
        except OSError:
            assert fails_after is not None

    def restart(self) -> None:
        """Another process reads what was written."""
        if self.head is not None:
            self.state, self.ledger = self.operator.read(self.head, self.store)

    def catch_up(self, behind: int) -> None:
        """Another process, which has the state of some writes before, reads what was written since."""
        if self.head is not None:
            near = self.versions[max(0, len(self.versions) - 1 - behind)]
            self.state, self.ledger = self.operator.read(self.head, self.store, near)

    def let_go(self) -> None:
        """Nothing is kept in memory that can be fetched again."""
        if self.head is not None:
            self.state = self.operator.let_go(self.state, self.ledger)


def small_pages(patch: pytest.MonkeyPatch, **sizes: Any) -> None:
    """Pages of some bytes, so that a few rows fill many of them."""
    limit = sizes.get("limit", 100)
    for module in (paging, cell_pages, pane_pages):
        patch.setattr(module, "LIMIT", limit)
    patch.setattr(cell_pages, "_INLINE", sizes.get("inline", 1))
    for module in (leaves, pane_pages):
        patch.setattr(module, "SMALL", sizes.get("small", 2000))
    patch.setattr(pane_pages, "_AT_ONCE", 4)
    patch.setattr(pane_pages, "_MANY_GONE", 3)
    patch.setattr(pane_pages, "_GONE_ROWS", 2)
    patch.setattr(pane_pages, "FAN", 3)
