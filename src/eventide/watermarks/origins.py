"""Names of origins as small numbers, so that what is known of them can be columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from eventide.watermarks.intervals import Ints

SOURCE = 0
"""Stands for the source itself: its only origin, or a source that has not shown any origin yet."""

_BULK = 2_000
"""From this many names on, one join costs less than looking up each name."""


class Origins:
    """A number for each name of an origin, kept until it is forgotten. A missing name (null) is a name of its own.

    Copies of a tracker share its tables until one of them meets a new name; then that one makes its own.

    >>> origins = Origins()
    >>> origins.numbers(pl.Series(["berlin", None, "berlin"])).tolist(), origins.label(2)
    ([2, 1, 2], "origin 'berlin'")
    """

    def __init__(self) -> None:
        self._number: dict[str | None, int] = {}
        self._names: list[str | None] = [None]
        self._free: list[int] = []  # numbers of names that were forgotten; the last one is given to the next name
        self._table: pl.DataFrame | None = None
        self._own = True

    def copy(self) -> Origins:
        """A twin that numbers new names apart."""
        twin = Origins.__new__(Origins)
        twin.__dict__.update(self.__dict__)
        self._own = twin._own = False
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
        """Free the numbers of some names for others, so that tables by number follow the names that are known.

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
        """The numbers that stand for no name, in the order in which they became free."""
        return self._free

    @classmethod
    def restore(cls, names: pl.Series, free: Sequence[int]) -> Origins:
        """Names by number, of which some numbers are free."""
        origins = cls()
        origins._names, origins._free = names.to_list(), list(free)
        unused = {SOURCE, *free}
        origins._number = {name: number for number, name in enumerate(origins._names) if number not in unused}
        return origins

    def find(self, name: str | None) -> int | None:
        """The number of a name, or None if it was never given one."""
        return self._number.get(name)

    def name(self, number: int) -> str | None:
        """The name that has this number."""
        return self._names[number]

    def names(self, numbers: Ints) -> pl.Series:
        """The names that have these numbers."""
        return pl.Series("origin", self._names, dtype=pl.String).gather(numbers)

    def numbers(self, names: pl.Series) -> Ints:
        """The number of each name. New names are numbered in their own order: a replay numbers them alike."""
        if len(names) < _BULK:
            asked = names.to_list()
            if not self._number.keys() >= set(asked):
                self._add(set(asked) - self._number.keys())
            return np.fromiter(map(self._number.__getitem__, asked), np.int64, len(asked))
        found = pl.DataFrame({"origin": names}).join(
            self._bulk(), on="origin", how="left", nulls_equal=True, maintain_order="left"
        )
        if found["number"].null_count():
            self._add(set(found.filter(pl.col("number").is_null())["origin"].to_list()))
            return self.numbers(names)
        return found["number"].to_numpy()

    def known(self, names: pl.Series) -> Ints:
        """The number of each name, -1 where it has none.

        >>> Origins().known(pl.Series(["berlin", None])).tolist()
        [-1, -1]
        """
        if len(names) < _BULK:
            return np.fromiter((self._number.get(name, -1) for name in names.to_list()), np.int64, len(names))
        asked = pl.DataFrame({"origin": names})
        found = asked.join(self._bulk(), on="origin", how="left", nulls_equal=True, maintain_order="left")
        return found["number"].fill_null(-1).to_numpy()

    def _add(self, names: Iterable[str | None]) -> None:
        for name in sorted(names, key=lambda name: (name is not None, name)):
            self.number(name)

    def label(self, number: int) -> str:
        """The origin as messages call it."""
        return "the source" if number == SOURCE else label(self.name(number))

    def _detach(self) -> None:
        """Stop sharing tables with copies, before they change."""
        self._table = None
        if not self._own:
            self._number, self._names, self._free = dict(self._number), list(self._names), list(self._free)
            self._own = True

    def _bulk(self) -> pl.DataFrame:
        if self._table is None:
            columns = {"origin": list(self._number), "number": list(self._number.values())}
            self._table = pl.DataFrame(columns, schema={"origin": pl.String, "number": pl.Int64})
        return self._table


def label(name: str | None) -> str:
    """An origin as messages call it.

    >>> label("berlin")
    "origin 'berlin'"
    """
    return "the origin without a name" if name is None else f"origin {name!r}"
