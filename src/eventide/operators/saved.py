"""What every operator does with its state between bundles; how its tables are written, ``Saving`` knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from eventide.operators.saving import Saving, State, opened, schemas_in
from eventide.state.paging import Ledger, Pages


class Saved:
    """An operator whose states are saved, as a whole or in pages. It is built from a plan and its inputs' columns."""

    _saving: Saving

    @property
    def state_facts(self) -> Mapping[str, str]:
        """What a state in pages depends on, in words."""
        return self._saving.facts

    def save(self, state: State) -> bytes:
        """The state as bytes; ``load`` goes on from there, in this process or another."""
        return self._saving.save(state)

    @classmethod
    def load(cls, plan: Any, saved: bytes) -> tuple[Self, State]:
        """The operator and the state that were saved. Another plan is refused, with what has changed."""
        content = opened(saved)
        operator = cls(plan, *schemas_in(content))  # type: ignore[call-arg]  # as every operator is built
        return operator, operator._saving.load(content)

    def write(self, state: State, pages: Pages, ledger: Ledger | None) -> tuple[bytes, Ledger]:
        """Put what is new since ``ledger`` into pages, drop what is gone; gives the head (small) and the new ledger.

        ``ledger`` came with the state that the bundle began with (None: nothing was written yet). It stays as it is,
        so a write that failed can be made again.
        """
        return self._saving.write(state, pages, ledger)

    def read(self, head: bytes, pages: Pages, near: tuple[State, Ledger] | None = None) -> tuple[State, Ledger]:
        """The state that was written. Another plan or format is refused with what has changed.

        ``near`` is a state of the same pages some writes before, with its ledger: then only what is new is fetched.

        Run steps on it inside ``with ledger.open(pages)``: cells stay in their pages until they are needed.
        """
        return self._saving.read(head, pages, near)

    def let_go(self, state: State, ledger: Ledger, *, keep: int = 0) -> State:
        """The state as it was written with ``ledger``, with about ``keep`` bytes of what can be fetched again."""
        return self._saving.let_go(state, ledger, keep)

    def sizes(self, state: State, ledger: Ledger | None = None) -> dict[str, int]:
        """Open ``rows``, ``runs`` in memory, ``pages`` and their ``bytes``, and what the last write has ``written``."""
        return self._saving.sizes(state, ledger)
