"""Two tables of windows side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["differs", "missing", "extra"]
Row = Mapping[str, Any]
_SAME = 1e-9  # sums of floats depend on the order of their terms


@dataclass(frozen=True)
class Difference:
    """A window of a key of which the table says something else; nothing on a side that does not have it."""

    kind: Kind  # extra: only the table has it; missing: only the replay has it
    identity: Row
    table: Row
    replay: Row

    def lines(self) -> list[tuple[Any, ...]]:
        """A line for each column that differs."""
        front = tuple(self.identity.values())
        return [
            (*(front if first else ("",) * len(front)), name, _shown(self.table, name), _shown(self.replay, name))
            for first, name in ((place == 0, name) for place, name in enumerate(self.table or self.replay))
        ]

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "kind": self.kind,
            "window": dict(self.identity),
            "table": dict(self.table) or None,
            "replay": dict(self.replay) or None,
        }


@dataclass(frozen=True)
class Comparison:
    """What became of a comparison."""

    identity: tuple[str, ...]
    windows: int  # that were compared
    differences: Sequence[Difference]

    def summary(self) -> str:
        """In a sentence.

        >>> Comparison((), 3, []).summary()
        '3 windows compared; the table says the same.'
        """
        head = f"{self.windows:,} {'window' if self.windows == 1 else 'windows'} compared"
        if not self.differences:
            return f"{head}; the table says the same."
        kinds = [one.kind for one in self.differences]
        words = {"differs": "with other values", "missing": "missing in the table", "extra": "only in the table"}
        parts = ", ".join(f"{kinds.count(kind):,} {text}" for kind, text in words.items() if kind in kinds)
        return f"{head}, {len(kinds):,} differ: {parts}."


def compared(table: Iterable[Row], replay: Iterable[Row], identity: Sequence[str]) -> Comparison:
    """The windows of two tables, matched by their identity.

    >>> compared([{"k": "a", "n": 1}], [{"k": "a", "n": 2}, {"k": "b", "n": 1}], ["k"]).summary()
    '2 windows compared, 2 differ: 1 with other values, 1 missing in the table.'
    """
    there, here = _by_identity(table, identity), _by_identity(replay, identity)
    differences = []
    for key in dict.fromkeys([*there, *here]):
        named = dict(zip(identity, key, strict=True))
        if key not in here:
            differences.append(Difference("extra", named, there[key], {}))
        elif key not in there:
            differences.append(Difference("missing", named, {}, here[key]))
        elif other := [name for name, value in here[key].items() if not same(value, there[key][name])]:
            sides = ({name: side[key][name] for name in other} for side in (there, here))
            differences.append(Difference("differs", named, *sides))
    return Comparison(tuple(identity), len({*there, *here}), differences)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, but for the last digits of floats.

    >>> same(0.1 + 0.2, 0.3), same([1.0, None], [1.0, None]), same(1, "1")
    (True, True, False)
    """
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=_SAME) or (math.isnan(one) and math.isnan(other))
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    return bool(one == other)


def _by_identity(rows: Iterable[Row], identity: Sequence[str]) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {
        tuple(row[name] for name in identity): {name: value for name, value in row.items() if name not in identity}
        for row in rows
    }


def _shown(side: Row, name: str) -> str:
    return "(none)" if not side else str(side[name])
