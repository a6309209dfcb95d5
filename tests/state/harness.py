"""A store of pages in a dict, and an operator whose state is stored in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from eventide.operators.operator import Output, Step
from eventide.operators.windowed_aggregate import State, WindowedAggregate
from eventide.state import cell_table as cell_pages
from eventide.state import pages as paging
from eventide.state import pane_log as leaves
from eventide.state import pane_log as pane_pages
from eventide.state.pages import Manifest


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


def pages_of(manifest: Manifest) -> set[int]:
    """The pages that a manifest knows."""
    numbers = {manifest.plan.number} if manifest.plan else set()
    for stored in manifest.tables.values():
        parts = stored.values() if isinstance(stored, dict) else [stored]
        numbers |= {page.number for part in parts for page in part.all()}
    return numbers


class Paged:
    """An operator on a store, as a host runs it: a step, a write, and the state cached or read again."""

    def __init__(self, operator: WindowedAggregate) -> None:
        self.operator = operator
        self.store = Store()
        self.state, self.manifest = operator.initial(), Manifest()
        self.head: bytes | None = None
        self.versions: list[tuple[State, Manifest]] = []  # as they were written

    def step(self, step: Callable[[State], Step[State]]) -> Output:
        """A bundle, written."""
        store = self.store.copy()
        with self.manifest.open(store):
            after = step(self.state)
        self.head, self.manifest = self.operator.write(after.state, store, self.manifest)
        self.state, self.store = after.state, store
        self.versions.append((self.state, self.manifest))
        assert set(store.pages) == pages_of(self.manifest), "the store holds what the manifest knows"
        return after.output

    def attempt(self, step: Callable[[State], Step[State]], fails_after: int | None) -> None:
        """A bundle whose write fails, or that is written and never committed."""
        store = self.store.copy(fails_after)
        with self.manifest.open(store):
            after = step(self.state)
        try:
            self.operator.write(after.state, store, self.manifest)
        except OSError:
            assert fails_after is not None

    def restart(self) -> None:
        """Another process reads what was written."""
        if self.head is not None:
            self.state, self.manifest = self.operator.read(self.head, self.store)

    def refresh(self, behind: int) -> None:
        """Another process, which has the state of some writes before, reads what was written since."""
        if self.head is not None:
            near = self.versions[max(0, len(self.versions) - 1 - behind)]
            self.state, self.manifest = self.operator.read(self.head, self.store, near)

    def evict(self) -> None:
        """Nothing is kept in memory that can be fetched again."""
        if self.head is not None:
            self.state = self.operator.evict(self.state, self.manifest)


def small_pages(patch: pytest.MonkeyPatch, **sizes: Any) -> None:
    """Pages of some bytes, so that a few rows fill many of them."""
    limit = sizes.get("limit", 100)
    for module in (paging, cell_pages, pane_pages):
        patch.setattr(module, "PAGE_BYTES", limit)
    patch.setattr(cell_pages, "_INLINE", sizes.get("inline", 1))
    for module in (leaves, pane_pages):
        patch.setattr(module, "SMALL_PAGE_BYTES", sizes.get("small", 2000))
    patch.setattr(pane_pages, "_MAX_REWRITTEN", 4)
    patch.setattr(pane_pages, "_MAX_REMOVAL_PAGES", 3)
    patch.setattr(pane_pages, "_REMOVAL_ROWS", 2)
    patch.setattr(pane_pages, "MERGE_FAN_IN", 3)
