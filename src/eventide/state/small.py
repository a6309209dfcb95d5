"""Plain data that is small enough to stand in every head."""

from __future__ import annotations

from typing import Any

from eventide.state.paging import Shelf, Sizes, Writer


class SmallForm:
    """All of it, each time."""

    def save(self, table: dict[str, Any]) -> dict[str, Any]:
        """As it is."""
        return table

    def load(self, saved: dict[str, Any]) -> dict[str, Any]:
        """As it was."""
        return saved

    def write(self, table: dict[str, Any], known: None, writer: Writer, shelf: Shelf) -> tuple[dict[str, Any], Any]:
        """In the head; no pages."""
        return table, NOTHING

    def read(self, head: dict[str, Any], shelf: Shelf) -> tuple[dict[str, Any], Any]:
        """What the head says."""
        return head, NOTHING

    def catch_up(self, table: Any, known: Any, head: dict[str, Any], shelf: Shelf) -> tuple[dict[str, Any], Any]:
        """What the head says."""
        return head, NOTHING

    def let_go(self, table: dict[str, Any], known: Any, shelf: Shelf, keep: int) -> dict[str, Any]:
        """It is small."""
        return table

    def sizes(self, table: dict[str, Any], known: Any) -> Sizes:
        """Nothing to speak of."""
        return Sizes()


class _NoPages:
    """What is known of something that lies in no page."""

    def all(self) -> tuple[()]:
        """No pages."""
        return ()


NOTHING = _NoPages()
