"""Runs two contestants in turn and tells the ratio of their rates."""

from __future__ import annotations

import gc
import json
import resource
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Line:
    """One result, printed as one line of JSON."""

    name: str
    eventide: float
    peer: float
    peer_name: str
    ratio: float
    unit: str
    peak_rss_mb: int
    equal: bool
    details: dict[str, Any] = field(default_factory=dict)
    first_ratio: float | None = None  # of the first batch, where it is measured

    def json(self) -> str:
        return json.dumps({name: value for name, value in asdict(self).items() if value not in ({}, None)})


def timed(run: Callable[[], T]) -> tuple[float, T]:
    gc.collect()
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


def race(
    name: str,
    eventide: Callable[[], T],
    peer: Callable[[], T],
    *,
    peer_name: str,
    rows: int,
    same: Callable[[T, T], bool],
    rounds: int = 5,
) -> Line:
    """Rates in rows per second: the best of several alternating rounds, so that a busy machine hurts both alike."""
    ours, theirs = [], []
    equal = True
    for _ in range(rounds):
        seconds, theirs_result = timed(peer)
        theirs.append(seconds)
        seconds, ours_result = timed(eventide)
        ours.append(seconds)
        equal = equal and same(ours_result, theirs_result)
    rate, peer_rate = rows / min(ours), rows / min(theirs)
    return Line(name, round(rate), round(peer_rate), peer_name, round(rate / peer_rate, 3), "rows/s", rss_mb(), equal)


def rss_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
