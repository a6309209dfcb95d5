"""State in pages: a host that has a store of keys and values keeps what is new, and leaves the rest where it lies.

A page is written once and never changed. The **head**, which is written anew after each bundle, says which pages
there are; the **ledger** says, in memory, which part of the state lies in which of them. The host gives the store.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import polars as pl

from eventide.errors import state as errors
from eventide.state import snapshot

LIMIT = 1 << 20
"""About so many bytes of rows make a page; its body is not much larger, unless one row alone is."""

FAN = 8  # so many small things become a larger one


class Pages(Protocol):
    """A store of the host's: bytes under numbers. ``get`` of what is not there raises a LookupError, or gives None."""

    def get(self, page: int) -> bytes:
        """The body of a page."""
        ...

    def put(self, page: int, body: bytes) -> None:
        """Keep a page. No number is used twice."""
        ...

    def drop(self, page: int) -> None:
        """Forget a page."""
        ...


@dataclass(frozen=True)
class Page:
    """A page as the head knows it. The check sum tells a page from one that a failed attempt left behind."""

    number: int
    check: int  # CRC-32 of the body
    size: int  # bytes of the body
    raw: int  # bytes of its rows in memory
    start: int  # the position or the id of its first row
    rows: int

    @property
    def stop(self) -> int:
        """Where the next page of rows without gaps would start."""
        return self.start + self.rows


_FIELDS = tuple(Page.__dataclass_fields__)


def to_frame(pages: Sequence[Page], **beside: pl.Series) -> pl.DataFrame:
    """Pages as columns, with other columns beside them."""
    return pl.DataFrame(
        {name: pl.Series([getattr(page, name) for page in pages], dtype=pl.Int64) for name in _FIELDS} | beside
    )


def from_frame(frame: pl.DataFrame) -> list[Page]:
    """The pages that were made columns of."""
    return [Page(*row) for row in frame.select(_FIELDS).iter_rows()]


class Shelf:
    """Where pages are fetched from: the host lends its store for the time of a ``with``, and only for that.

    A state lives longer than the handle of a store. Outside of the ``with`` a page that is asked for is refused, so
    an old handle is never used.
    """

    def __init__(self) -> None:
        self._pages: Pages | None = None

    @contextmanager
    def lend(self, pages: Pages) -> Iterator[None]:
        """Fetch from ``pages`` until the end of the ``with``."""
        before, self._pages = self._pages, pages
        try:
            yield
        finally:
            self._pages = before

    def fetch(self, page: Page) -> dict[str, Any]:
        """What is in a page."""
        if self._pages is None:
            raise errors.no_pages_open(page.number)
        try:
            body = self._pages.get(page.number)
        except LookupError as cause:
            raise errors.missing_page(page.number) from cause
        if not body:
            raise errors.missing_page(page.number)
        if zlib.crc32(body) != page.check:
            raise errors.another_page(page.number)
        return snapshot.load(bytes(body))


class Writer:
    """One write: numbers new pages from ``next`` on."""

    def __init__(self, pages: Pages, next_: int) -> None:
        self._pages = pages
        self._gone: list[Page] = []
        self.next = next_
        self.written = 0

    def put(self, content: dict[str, Any], *, start: int = 0, rows: int = 0) -> Page:
        """A new page."""
        body = snapshot.dump(content, compression="lz4")
        return self._put(body, len(body), start, rows)

    def put_rows(
        self, bounds: Iterable[tuple[int, int]], content: Callable[[int, int], tuple[int, dict[str, Any]]]
    ) -> list[Page]:
        """The rows between bounds as pages, one for each or more: ``content`` gives the start and content of some."""
        pages: list[Page] = []
        for lo, hi in bounds:
            start, what = content(lo, hi)
            body = snapshot.dump(what, compression="lz4")
            if len(body) > LIMIT * 5 // 4 and hi - lo > 1:  # rows differ in size, and these are large ones
                middle = (lo + hi) // 2
                pages += self.put_rows([(lo, middle), (middle, hi)], content)
            else:
                pages.append(self._put(body, int(what["rows"].estimated_size()), start, hi - lo))
        return pages

    def drop(self, pages: Iterable[Page]) -> None:
        """Forget pages, once all that is new has been put."""
        self._gone += pages

    def finish(self) -> None:
        """Forget what was dropped."""
        for page in self._gone:
            self._pages.drop(page.number)

    def _put(self, body: bytes, raw: int, start: int, rows: int) -> Page:
        page = Page(self.next, zlib.crc32(body), len(body), raw, start, rows)
        self._pages.put(page.number, body)
        self.next += 1
        self.written += page.size
        return page


@dataclass(frozen=True)
class Ledger:
    """What of a state lies in which pages. A value: a write gives a new one, and the old one can be written from again.

    Run a step inside ``with ledger.open(pages)``: parts of the state are fetched when they are first needed.
    """

    next: int = 1  # the number of the next page; none is used twice
    plan: Page | None = None  # what the plan was, in words
    tables: Mapping[str, Any] = field(default_factory=dict)
    written: int = 0  # bytes that the last write put
    shelf: Shelf = field(default_factory=Shelf, compare=False)

    def open(self, pages: Pages) -> AbstractContextManager[None]:
        """Lend the host's store to the states of this ledger."""
        return self.shelf.lend(pages)


class Form(Protocol):
    """How one table of a state is written: as a whole, or in pages."""

    def save(self, table: Any) -> Any:
        """The whole table as plain data and frames."""
        ...

    def load(self, saved: Any) -> Any:
        """The table that was saved."""
        ...

    def write(self, table: Any, known: Any, writer: Writer, shelf: Shelf) -> tuple[dict[str, Any], Any]:
        """Put what is new since ``known``, drop what is gone: what the head says of it, and what is known now."""
        ...

    def read(self, head: dict[str, Any], shelf: Shelf) -> tuple[Any, Any]:
        """The table that was written, and what is known of it."""
        ...

    def catch_up(self, table: Any, known: Any, head: dict[str, Any], shelf: Shelf) -> tuple[Any, Any]:
        """The same, from a table that was written some bundles before, and what was known of it."""
        ...

    def let_go(self, table: Any, known: Any, shelf: Shelf, keep: int) -> Any:
        """The table with at most about ``keep`` bytes in memory of what can be fetched again."""
        ...

    def sizes(self, table: Any, known: Any) -> Sizes:
        """How large it is."""
        ...


@dataclass(frozen=True)
class Sizes:
    """How large a table is: in memory, and in pages."""

    rows: int = 0
    runs: int = 0
    pages: int = 0
    bytes: int = 0
    raw: int = 0  # of what is in the pages, in memory

    def __add__(self, other: Sizes) -> Sizes:
        """Both together."""
        mine, theirs = vars(self), vars(other)
        return Sizes(**{name: mine[name] + theirs[name] for name in mine})


def even(rows: int, size: int) -> list[tuple[int, int]]:
    """Bounds that cut rows of together ``size`` bytes into pages of equal length, so that none is a mere rest.

    >>> even(10, LIMIT * 3)
    [(0, 4), (4, 8), (8, 10)]
    """
    step = max(1, -(-rows // max(1, -(-size // LIMIT))))
    return [(lo, min(rows, lo + step)) for lo in range(0, rows, step)]
