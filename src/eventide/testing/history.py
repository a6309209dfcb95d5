"""What happened in a test so far, and how it is printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_MOST_ROWS = 12


@dataclass(frozen=True)
class Happening:
    """One bundle: its clock, what went in, the watermark after it, and what came out."""

    clock: str
    put_in: Sequence[str]
    watermark: str
    came_out: Sequence[str]


def table(happenings: Sequence[Happening]) -> list[str]:
    """Aligned lines: a bundle may take several.

    >>> for line in table([Happening("12:05", ["a 5", "b 3"], "12:02", ["+ a total=5"])]):
    ...     print(line)
    clock  in   watermark  out
    12:05  a 5      12:02  + a total=5
           b 3
    """
    rows: list[tuple[str, str, str, str]] = [("clock", "in", "watermark", "out")]
    for happening in happenings:
        put_in = _shortened(happening.put_in)
        for i in range(max(len(put_in), len(happening.came_out), 1)):
            rows.append(
                (
                    happening.clock if i == 0 else "",
                    put_in[i] if i < len(put_in) else "",
                    happening.watermark if i == 0 else "",
                    happening.came_out[i] if i < len(happening.came_out) else "",
                )
            )
    clock, put_in_, watermark = (max(len(row[column]) for row in rows) for column in range(3))
    return [f"{c:<{clock}}  {i:<{put_in_}}  {w:>{watermark}}  {o}".rstrip() for c, i, w, o in rows]


def _shortened(rows: Sequence[str]) -> Sequence[str]:
    if len(rows) <= _MOST_ROWS:
        return rows
    return [*rows[: _MOST_ROWS - 1], f"… and {len(rows) - _MOST_ROWS + 1} more"]
