"""A head as a host keeps it: as the operator wrote it, or with small pages in it.

A host may pay milliseconds for a first look into its store of pages, in every batch. A state that is small then lies
in its head, as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from eventide.errors import state as errors
from eventide.state import snapshot

WITH_PAGES = 2
"""The format of a head with pages in it. Versions that do not know it refuse it by this number."""


@dataclass(frozen=True)
class Head:
    """What the operator wrote, pages that lie beside it, and how many lie in the store (None: it is not said)."""

    body: bytes
    pages: Mapping[int, bytes] = field(default_factory=dict)
    elsewhere: int | None = None

    @property
    def format(self) -> int:
        """The number of the format in which it is kept."""
        return WITH_PAGES if self.pages else snapshot.FORMAT

    def to_bytes(self) -> bytes:
        """As it is kept; without pages just as the operator wrote it.

        >>> Head.from_bytes(Head(snapshot.dump({}), {7: b"rows"}, 0).to_bytes()).pages
        {7: b'rows'}
        """
        if not self.pages:
            return self.body
        parts = [*self.pages.values(), self.body]
        about = {"kind": "head with pages", "pages": list(self.pages), "elsewhere": self.elsewhere}
        return snapshot.framed(WITH_PAGES, about, [len(part) for part in parts], parts)

    @classmethod
    def from_bytes(cls, kept: bytes) -> Head:
        """The head that was kept. A format that is not known is refused."""
        match snapshot.format_of(kept):
            case snapshot.FORMAT:
                return cls(kept)
            case version if version != WITH_PAGES:
                raise errors.unknown_format(version, snapshot.FORMAT, WITH_PAGES)
        about, (*pages, body) = snapshot.unframed(kept)
        return cls(body, dict(zip(about["pages"], pages, strict=True)), about["elsewhere"])
