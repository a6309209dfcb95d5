"""The watermark that stood at the end of each batch, told to the tasks that stamp the next one on the same machine.

A stamp that knows it can tell late rows from others and turn the rest into cells. One that does not know it, because
the query has just started or the state rests on other machines, sends its rows on as they are: the result is
the same. So nothing here must be kept, or be shared between machines.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path

from eventide.spark.surroundings import own_directory
from eventide.time import MIN

_KEPT = 3  # batches
_SWEPT = "swept"  # an empty directory, whose time says when what is old was last removed


def note(query: str, operator: str, batch: int, watermark: int) -> None:
    """A batch has ended with this watermark; every bucket says the same."""
    place = _place(query, operator)
    if place is None:
        return
    with contextlib.suppress(OSError):
        if not place.parent.exists():
            _sweep(place.parent.parent)
        place.mkdir(parents=True, exist_ok=True)
        fresh = place / f"{batch}.{os.getpid()}"
        fresh.write_text(str(watermark), encoding="ascii")
        fresh.replace(place / str(batch))
        (place / str(batch - _KEPT)).unlink(missing_ok=True)


def known(query: str, operator: str, batch: int) -> int | None:
    """The watermark at the end of a batch, if it is known here."""
    if batch < 0:
        return MIN
    place = _place(query, operator)
    try:
        return None if place is None else int((place / str(batch)).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _place(query: str, operator: str) -> Path | None:
    own = own_directory("eventide-watermarks")
    return None if own is None else own / query / operator


def _sweep(place: Path) -> None:
    """Forget what queries have left that have not said anything for a day. Once an hour: a busy machine has many."""
    now, swept = time.time(), place / _SWEPT
    if swept.exists() and swept.stat().st_mtime > now - 3_600:
        return
    swept.mkdir(parents=True, exist_ok=True)
    os.utime(swept)
    for query in set(place.iterdir()) - {swept}:
        if all(operator.stat().st_mtime < now - 86_400 for operator in query.iterdir()):
            shutil.rmtree(query, ignore_errors=True)
