"""Packing: small blobs that lie next to each other become one.

What a reader does once for each blob costs more than what it does for a row, so many small appends would be read
slowly. Packing changes neither events nor their offsets: a packed blob is an Arrow stream like any other, and holds
what the small ones held.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from eventide.marks.events import decode_all, encode


class Size(NamedTuple):
    """How large a blob is, and where it lies."""

    offset: int
    rows: int
    bytes: int

    @property
    def end(self) -> int:
        """The offset behind it."""
        return self.offset + self.rows


Run: TypeAlias = Sequence[Size]
"""Neighbours that are to become one blob."""


@dataclass(frozen=True, kw_only=True)
class Packing:
    """When blobs are packed, and which.

    The offsets of a segment are divided into stretches of ``short`` and of ``long`` rows. An append that reaches the
    end of one packs what began in it. Lengths alone decide, so that nothing has to be remembered from append to append,
    by whichever process. Two sorts of stretches, so that neither many tiny blobs pile up nor a row is packed more than
    twice.
    """

    short: int = 128
    long: int = 16_384
    fewest: int = 4
    """So many neighbours are worth it."""
    enough_rows: int = 2_048
    """So many rows in a blob are read as fast as any: it stays as it is."""
    enough_bytes: int = 128 * 1024
    """The same for bytes, however few the rows are."""
    largest: int = 1024 * 1024
    """Bytes of the blobs that become one."""
    at_once: int = 4 * 1024 * 1024
    """Bytes of the blobs that are packed in one step, which others wait for."""
    looked_at: int = 1_024
    """Blobs in one step."""

    def filled(self, begins: int, ends: int) -> int | None:
        """Where the stretch begins whose end is reached by an append from ``begins`` to ``ends``; None if none is.

        >>> packing = Packing(short=10, long=100)
        >>> packing.filled(97, 103), packing.filled(28, 30), packing.filled(28, 29), packing.filled(11, 60)
        (0, 20, None, None)
        """
        if begins // self.long < ends // self.long:
            return begins // self.long * self.long
        tiny = (ends - begins) * self.fewest <= self.short
        if tiny and begins // self.short < ends // self.short:
            return begins // self.short * self.short
        return None

    def runs(self, blobs: Sequence[Size]) -> list[Run]:
        """All runs of small neighbours among blobs that come in order, none of which has much more than ``long`` rows.

        >>> packing = Packing(long=10, enough_rows=5)
        >>> blobs = [Size(0, 4, 50), Size(4, 4, 50), Size(8, 2, 50), Size(10, 1, 50), Size(11, 9, 99), Size(20, 1, 50)]
        >>> [[one.offset for one in run] for run in packing.runs(blobs)]
        [[0, 4, 8], [10], [20]]
        """
        found: list[list[Size]] = [[]]
        for one in blobs:
            if not self._is_small(one):
                found.append([])
                continue
            if found[-1] and not self._takes(found[-1], one):
                found.append([])
            found[-1].append(one)
        return [run for run in found if run]

    def chosen(self, runs: Sequence[Run]) -> list[Run]:
        """Those that are worth it, as many as one step may take."""
        found: list[Run] = []
        left = self.at_once
        for run in runs:
            left -= sum(one.bytes for one in run) if len(run) >= self.fewest else 0
            if left < 0:
                break
            found += [run] if len(run) >= self.fewest else []
        return found

    def ahead(self, blobs: Sequence[Size]) -> tuple[list[Run], int]:
        """What to pack of the first blobs from somewhere on, and where to look next. A run that may still grow waits,
        unless it is all that could be looked at.
        """
        runs, further = self.runs(blobs), blobs[-1].end
        grows = bool(runs) and runs[-1][-1] == blobs[-1] and sum(one.rows for one in runs[-1]) < self.long
        if grows:
            further = runs[-1][0].offset
            if len(blobs) < self.looked_at or further > blobs[0].offset:
                runs.pop()
        chosen = self.chosen(runs)
        if chosen and sum(len(run) >= self.fewest for run in runs) > len(chosen):
            further = chosen[-1][-1].end
        return chosen, further

    def _is_small(self, one: Size) -> bool:
        return one.rows < self.enough_rows and one.bytes < self.enough_bytes

    def _takes(self, run: Run, one: Size) -> bool:
        rows, size = sum(each.rows for each in run), sum(each.bytes for each in run)
        return run[-1].end == one.offset and rows < self.long and size + one.bytes <= self.largest


PACKING = Packing()
"""How stores do it."""


def packed(bodies: Sequence[bytes], rows: int) -> bytes | None:
    """The events of many bodies as one; None if they are not that many rows, or no events at all.

    >>> bodies = [encode(pa.table({"n": [number]})) for number in range(3)]
    >>> packed(bodies, 3) == encode(pa.table({"n": [0, 1, 2]})), packed([b"no events"], 3)
    (True, None)
    """
    try:
        table = decode_all(bodies).combine_chunks()
        return encode(table) if len(table) == rows else None
    except (pa.ArrowException, OSError, EOFError):  # a store takes any bytes: what they mean is for readers to find out
        return None


def writer_of(writers: Sequence[str]) -> str:
    """Who has written the events of a packed blob: nobody in particular, if there were several."""
    return writers[0] if len(set(writers)) == 1 else ""
