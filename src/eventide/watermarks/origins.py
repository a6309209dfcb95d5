"""Names of origins as small numbers, so that state can be kept in columns; their offsets; which are expected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl

from eventide.kernels.intervals import Ints
from eventide.time import MIN

SOURCE = 0
"""The number of the source itself: its only origin, or a placeholder until the first origin is known."""

_BULK = 2_000
"""From this many names on, one join costs less than looking up each name."""


class Origins:
    """A number for each name of an origin, until the origin is forgotten. Null is a name like any other.

    Copies share their tables; a copy that adds a name makes its own tables first.

    >>> origins = Origins()
    >>> origins.numbers(pl.Series(["berlin", None, "berlin"])).tolist(), origins.label(2)
    ([2, 1, 2], "origin 'berlin'")
    """

    def __init__(self) -> None:
        self._number: dict[str | None, int] = {}
        self._names: list[str | None] = [None]
        self._free: list[int] = []  # numbers of forgotten names; the last one is reused first
        self._table: pl.DataFrame | None = None
        self._owns_tables = True

    def copy(self) -> Origins:
        """A copy that numbers new names independently."""
        twin = Origins.__new__(Origins)
        twin.__dict__.update(self.__dict__)
        self._owns_tables = twin._owns_tables = False
        return twin

    def __len__(self) -> int:
        return len(self._names)

    def number(self, name: str | None) -> int:
        """The number of a name, a new one if it is new."""
        number = self._number.get(name)
        if number is None:
            self._detach()
            if self._free:
                number = self._free.pop()
                self._names[number] = name
            else:
                number = len(self._names)
                self._names.append(name)
            self._number[name] = number
        return number

    def forget(self, numbers: Ints) -> None:
        """Free the numbers of some names for others, so that tables by number do not grow.

        >>> origins = Origins()
        >>> origins.numbers(pl.Series(["berlin", "kiel"])).tolist()
        [1, 2]
        >>> origins.forget(np.array([1]))
        >>> origins.find("berlin"), origins.number("oslo")
        (None, 1)
        """
        self._detach()
        for number in numbers.tolist():
            del self._number[self._names[number]]
            self._names[number] = None
        self._free += numbers.tolist()

    def free(self) -> list[int]:
        """The numbers without a name, in the order in which they became free."""
        return self._free

    @classmethod
    def restore(cls, names: pl.Series, free: Sequence[int]) -> Origins:
        """The numbers as in a snapshot: names by number, of which some numbers are free."""
        origins = cls()
        origins._names, origins._free = names.to_list(), list(free)
        unused = {SOURCE, *free}
        origins._number = {name: number for number, name in enumerate(origins._names) if number not in unused}
        return origins

    def find(self, name: str | None) -> int | None:
        """The number of a name, or None if it has none."""
        return self._number.get(name)

    def name(self, number: int) -> str | None:
        """The name that has this number."""
        return self._names[number]

    def names(self, numbers: Ints) -> pl.Series:
        """The names that have these numbers."""
        return pl.Series("origin", self._names, dtype=pl.String).gather(numbers)

    def numbers(self, names: pl.Series) -> Ints:
        """The number of each name. New names are numbered in sorted order, so that a replay gives the same."""
        if len(names) < _BULK:
            wanted = names.to_list()
            if not self._number.keys() >= set(wanted):
                self._add(set(wanted) - self._number.keys())
            return np.fromiter(map(self._number.__getitem__, wanted), np.int64, len(wanted))
        matches = self._matches(names)
        if matches["number"].null_count():
            self._add(set(matches.filter(pl.col("number").is_null())["origin"].to_list()))
            return self.numbers(names)
        return matches["number"].to_numpy()

    def find_all(self, names: pl.Series) -> Ints:
        """The number of each name, -1 where it has none.

        >>> Origins().find_all(pl.Series(["berlin", None])).tolist()
        [-1, -1]
        """
        if len(names) < _BULK:
            return np.fromiter((self._number.get(name, -1) for name in names.to_list()), np.int64, len(names))
        return self._matches(names)["number"].fill_null(-1).to_numpy()

    def _add(self, names: Iterable[str | None]) -> None:
        for name in sorted(names, key=lambda name: (name is not None, name)):
            self.number(name)

    def label(self, number: int) -> str:
        """The origin with this number, for messages."""
        return "the source" if number == SOURCE else label(self.name(number))

    def _detach(self) -> None:
        """Stop sharing tables with copies, before they change."""
        self._table = None
        if not self._owns_tables:
            self._number, self._names, self._free = dict(self._number), list(self._names), list(self._free)
            self._owns_tables = True

    def _matches(self, names: pl.Series) -> pl.DataFrame:
        if self._table is None:
            columns = {"origin": list(self._number), "number": list(self._number.values())}
            self._table = pl.DataFrame(columns, schema={"origin": pl.String, "number": pl.Int64})
        rows = pl.DataFrame({"origin": names})
        return rows.join(self._table, on="origin", how="left", nulls_equal=True, maintain_order="left")


class OriginOffsets:
    """The next offset of each origin, for windows by offset.

    >>> offsets = OriginOffsets()
    >>> offsets.observe(np.array([1, 1]), np.array([4, 3]), origins=2)
    >>> offsets.next_offset.tolist() == [MIN, 5]
    True
    """

    def __init__(self) -> None:
        self.next_offset: Ints = np.array([MIN])

    def observe(self, numbers: Ints, highest: Ints, origins: int) -> None:
        """Raise the offsets of some origins to what follows the highest one. There are ``origins`` in all."""
        missing = origins - len(self.next_offset)
        if missing > 0:
            self.next_offset = np.append(self.next_offset, np.full(missing, MIN))
        np.maximum.at(self.next_offset, numbers, highest + 1)

    def forget(self, numbers: Ints) -> None:
        """Drop the offsets of some origins."""
        self.next_offset[numbers[numbers < len(self.next_offset)]] = MIN

    def frame(self, origins: Origins) -> pl.DataFrame:
        """``origin`` and ``reached``, its next offset, of each origin that has sent offsets."""
        numbers = np.flatnonzero(self.next_offset > MIN)
        return pl.DataFrame({"origin": origins.names(numbers), "reached": self.next_offset[numbers]})

    def copy(self) -> OriginOffsets:
        """An independent copy."""
        twin = OriginOffsets()
        twin.next_offset = self.next_offset.copy()
        return twin


class ExpectedOrigins:
    """The origins that must be seen before the watermark advances (``expect_origins=``): their number, or their names.

    An origin that was retired counts as seen. After ``timeout`` no origin is waited for.
    """

    def __init__(self, expected: int | tuple[str, ...] | None, timeout: int | None) -> None:
        self._expected = expected
        self._timeout = timeout
        self.started = 0
        self.waiting = expected is not None
        self.retired: frozenset[str | None] = frozenset()

    def observe(self, names: set[str | None], clock: int) -> None:
        """Stop waiting if all expected origins were seen, or the timeout has passed."""
        seen = names | self.retired
        expected = self._expected
        missing = len(seen) < expected if isinstance(expected, int) else not seen.issuperset(expected or ())
        self.waiting = missing and (self._timeout is None or clock - self.started < self._timeout)

    def deadline(self) -> int | None:
        """The polled time at which the wait ends; None if nothing is waited for, or without a timeout."""
        return self.started + self._timeout if self.waiting and self._timeout is not None else None

    def may_include(self, name: str | None) -> bool:
        """Whether an origin that was not seen yet may be an expected one."""
        expected = self._expected
        return self.waiting if isinstance(expected, int) else name in (expected or ())

    def copy(self) -> ExpectedOrigins:
        """An independent copy."""
        twin = ExpectedOrigins(self._expected, self._timeout)
        twin.started, twin.waiting, twin.retired = self.started, self.waiting, self.retired
        return twin

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data."""
        return {"started": self.started, "waiting": self.waiting, "retired": sorted(self.retired, key=str)}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Continue from a snapshot."""
        self.started, self.waiting = snapshot["started"], snapshot["waiting"]
        self.retired = frozenset(snapshot["retired"])


def label(name: str | None) -> str:
    """An origin, for messages.

    >>> label("berlin")
    "origin 'berlin'"
    """
    return "the origin without a name" if name is None else f"origin {name!r}"
