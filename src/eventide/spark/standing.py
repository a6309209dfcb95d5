"""The watermark that stood at the end of each batch, told to the tasks that stamp the next one on the same machine.

A stamp that knows it can tell late rows from others and turn the rest into cells. One that does not know it, because
the query has just started or the state rests on other machines, sends its rows on as they are: the result is
the same. So nothing here must be kept, or be shared between machines.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from eventide.time import MIN

_KEPT = 3  # batches


def note(query: str, operator: str, batch: int, watermark: int) -> None:
    """A batch has ended with this watermark; every bucket says the same."""
    place = _place(query, operator)
    with contextlib.suppress(OSError):
        place.mkdir(parents=True, exist_ok=True)
        fresh = place / f"{batch}.{os.getpid()}"
        fresh.write_text(str(watermark), encoding="ascii")
        fresh.replace(place / str(batch))
        (place / str(batch - _KEPT)).unlink(missing_ok=True)


def known(query: str, operator: str, batch: int) -> int | None:
    """The watermark at the end of a batch, if it is known here."""
    if batch < 0:
        return MIN
    try:
        return int((_place(query, operator) / str(batch)).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _place(query: str, operator: str) -> Path:
    return Path(tempfile.gettempdir()) / f"eventide-{os.getuid()}" / query / operator
