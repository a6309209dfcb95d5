"""State in pages: the host's page store, the manifest of the pages of a state, and the contract of table codecs.

A page is written once and never changes. Each write of a state puts new pages and a small header that lists all pages.
The manifest is the same list in memory.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import polars as pl

from eventide.errors import DataError
from eventide.state.format import dump, load

PAGE_BYTES = 1 << 20
"""The target size of the rows of a page. Only a single row that is larger makes a much larger page."""

MERGE_FAN_IN = 8  # how many small runs or pages are merged into a larger one


class PageStore(Protocol):
    """Bytes by number, stored by the host. ``get`` of a missing page raises a LookupError or returns None."""

    def get(self, page: int) -> bytes:
        """Return the body of a page."""
        ...

    def put(self, page: int, body: bytes) -> None:
        """Store a page. No number is used twice."""
        ...

    def drop(self, page: int) -> None:
        """Delete a page."""
        ...


@dataclass(frozen=True)
class Page:
    """A page as the header lists it. The checksum detects a page that a failed attempt left behind."""

    number: int
    check: int  # CRC-32 of the body
    size: int  # bytes of the body
    raw: int  # bytes of its rows in memory
    start: int  # position or id of its first row
    rows: int

    @property
    def stop(self) -> int:
        """The position behind its last row, for rows without gaps."""
        return self.start + self.rows


_FIELDS = tuple(Page.__dataclass_fields__)


def pages_to_frame(pages: Sequence[Page], **columns: pl.Series) -> pl.DataFrame:
    """Return pages as a frame, with more columns."""
    fields = {name: pl.Series([getattr(page, name) for page in pages], dtype=pl.Int64) for name in _FIELDS}
    return pl.DataFrame(fields | columns)


def pages_from_frame(frame: pl.DataFrame) -> list[Page]:
    """Return the pages of ``pages_to_frame``."""
    return [Page(*row) for row in frame.select(_FIELDS).iter_rows()]


class PageReader:
    """Reads pages from the store that is attached. A state outlives the handle of a store, so an old handle is
    never used.
    """

    def __init__(self) -> None:
        self._pages: PageStore | None = None

    @contextmanager
    def attach(self, pages: PageStore) -> Iterator[None]:
        """Read from ``pages`` until the end of the ``with`` block."""
        before, self._pages = self._pages, pages
        try:
            yield
        finally:
            self._pages = before

    def fetch(self, page: Page) -> dict[str, Any]:
        """Return the content of a page."""
        if self._pages is None:
            raise DataError(
                f"Page {page.number} of the state is needed, but no page store is open. Run the step inside "
                "`with manifest.open(pages):`."
            )
        try:
            body = self._pages.get(page.number)
        except LookupError as cause:
            raise _missing_page(page.number) from cause
        if not body:
            raise _missing_page(page.number)
        if zlib.crc32(body) != page.check:
            raise DataError(
                f"Page {page.number} of the state has another checksum than the header lists. "
                "Use a header and pages of the same checkpoint."
            )
        return load(bytes(body))


class PageWriter:
    """One write of a state. New pages are numbered from ``next_page`` on."""

    def __init__(self, pages: PageStore, next_page: int) -> None:
        self._pages = pages
        self._dropped: list[Page] = []
        self.next_page = next_page
        self.written = 0

    def put(self, content: dict[str, Any], *, start: int = 0, rows: int = 0) -> Page:
        """Write a page."""
        body = dump(content, compression="lz4")
        return self._put(body, len(body), start, rows)

    def put_rows(
        self, bounds: Iterable[tuple[int, int]], content: Callable[[int, int], tuple[int, dict[str, Any]]]
    ) -> list[Page]:
        """Write the rows between each pair of bounds. ``content`` returns the start and the content of a page."""
        pages: list[Page] = []
        for lo, hi in bounds:
            start, part = content(lo, hi)
            body = dump(part, compression="lz4")
            if len(body) > PAGE_BYTES * 5 // 4 and hi - lo > 1:  # these rows are larger than the average
                middle = (lo + hi) // 2
                pages += self.put_rows([(lo, middle), (middle, hi)], content)
            else:
                pages.append(self._put(body, int(part["rows"].estimated_size()), start, hi - lo))
        return pages

    def drop(self, pages: Iterable[Page]) -> None:
        """Delete pages in ``finish``, after all new pages are written."""
        self._dropped += pages

    def finish(self) -> None:
        """Delete the dropped pages."""
        for page in self._dropped:
            self._pages.drop(page.number)

    def _put(self, body: bytes, raw: int, start: int, rows: int) -> Page:
        page = Page(self.next_page, zlib.crc32(body), len(body), raw, start, rows)
        self._pages.put(page.number, body)
        self.next_page += 1
        self.written += page.size
        return page


@dataclass(frozen=True)
class Manifest:
    """The pages of a state. Immutable: a write returns a new manifest, and the old one can be written from again.

    Run a step inside ``with manifest.open(pages)``: parts of the state are fetched when they are first needed.
    """

    next_page: int = 1  # no number is used twice
    plan: Page | None = None  # the description of the plan
    tables: Mapping[str, Any] = field(default_factory=dict)  # what each codec returned
    written: int = 0  # bytes of the last write
    reader: PageReader = field(default_factory=PageReader, compare=False)

    def open(self, pages: PageStore) -> AbstractContextManager[None]:
        """Attach the page store to the states of this manifest."""
        return self.reader.attach(pages)


class TableCodec(Protocol):
    """Encodes one table of a state, as a whole or in pages. ``stored`` maps parts to pages."""

    def save(self, table: Any) -> Any:
        """Return the whole table as plain data and frames."""
        ...

    def load(self, saved: Any) -> Any:
        """Return the table of ``save``."""
        ...

    def write(self, table: Any, stored: Any, writer: PageWriter, reader: PageReader) -> tuple[dict[str, Any], Any]:
        """Write what is new since ``stored`` and drop obsolete pages. Returns the header entry and what is stored."""
        ...

    def read(self, head: dict[str, Any], reader: PageReader) -> tuple[Any, Any]:
        """Return the table that was written, and what is stored of it."""
        ...

    def refresh(self, table: Any, stored: Any, head: dict[str, Any], reader: PageReader) -> tuple[Any, Any]:
        """Do the same as ``read``, from an older version of the table in memory."""
        ...

    def evict(self, table: Any, stored: Any, reader: PageReader, keep: int) -> Any:
        """Return the table with at most about ``keep`` bytes in memory of what can be fetched again."""
        ...

    def sizes(self, table: Any, stored: Any) -> TableSizes:
        """Return the size of the table."""
        ...


@dataclass(frozen=True)
class TableSizes:
    """The size of a table, in memory and in pages."""

    rows: int = 0
    runs: int = 0
    pages: int = 0
    bytes: int = 0
    raw: int = 0  # bytes in memory of the rows in pages
    evictable: int = 0  # those of them that need not stay in memory

    def __add__(self, other: TableSizes) -> TableSizes:
        """Return the sum of both."""
        return TableSizes(**{name: size + getattr(other, name) for name, size in vars(self).items()})


def even_bounds(rows: int, size: int) -> list[tuple[int, int]]:
    """Return bounds that divide ``rows`` rows of ``size`` bytes into pages of equal length.

    >>> even_bounds(10, PAGE_BYTES * 3)
    [(0, 4), (4, 8), (8, 10)]
    """
    step = max(1, -(-rows // max(1, -(-size // PAGE_BYTES))))
    return [(lo, min(rows, lo + step)) for lo in range(0, rows, step)]


class InlineCodec:
    """Stores a small table of plain data in the header."""

    def save(self, table: dict[str, Any]) -> dict[str, Any]:
        """Return the table."""
        return table

    def load(self, saved: dict[str, Any]) -> dict[str, Any]:
        """Return the table."""
        return saved

    def write(
        self, table: dict[str, Any], stored: None, writer: PageWriter, reader: PageReader
    ) -> tuple[dict[str, Any], Any]:
        """Return the table as its header entry."""
        return table, NO_PAGES

    def read(self, head: dict[str, Any], reader: PageReader) -> tuple[dict[str, Any], Any]:
        """Return the header entry."""
        return head, NO_PAGES

    def refresh(self, table: Any, stored: Any, head: dict[str, Any], reader: PageReader) -> tuple[dict[str, Any], Any]:
        """Return the header entry."""
        return head, NO_PAGES

    def evict(self, table: dict[str, Any], stored: Any, reader: PageReader, keep: int) -> dict[str, Any]:
        """Return the table."""
        return table

    def sizes(self, table: dict[str, Any], stored: Any) -> TableSizes:
        """Return zero: the header is not counted."""
        return TableSizes()


class _NoPages:
    def all(self) -> tuple[()]:
        return ()


NO_PAGES = _NoPages()


def _missing_page(number: int) -> DataError:
    return DataError(
        f"Page {number} of the state is missing: the header lists it, but the page store does not have it. "
        "Use a checkpoint that has both, or start with new state."
    )
