"""The origins of a stored tracker, and the gaps in their sequence numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from typing import Any

from eventide.metrics import Gap
from eventide.time import as_datetime, known_datetime
from eventide.watermarks.coalescer import ABSENT, ACTIVE, DONE, IDLE
from eventide.watermarks.sequences import FIRST, SequenceProgress

_STATUS = {ACTIVE: "active", IDLE: "idle", DONE: "done", ABSENT: "absent"}
_FIRST_SEQUENCE = re.compile(r"\bfirst_sequence=(-?\d+)")


@dataclass(frozen=True)
class Origin:
    """An origin: its status and its watermark, for each watermark key."""

    name: str | None  # with several inputs: the input, a colon, and the origin
    status: str  # active, idle, done or absent
    watermarks: Mapping[int, datetime | None]


def stored_origins(tracker: Mapping[str, Any], plan: Mapping[str, str]) -> list[Origin]:
    """Return the origins. A stream without origins has only the watermark of the operator, and none here."""
    if "inputs" not in tracker:
        return [origin for number, origin in _sources(tracker) if number]
    names = list(_inputs(plan)) or map(str, count())
    inputs = zip(names, tracker["inputs"], strict=False)
    sources = [(name, number, origin) for name, known in inputs for number, origin in _sources(known)]
    return [replace(origin, name=f"{name}: {origin.name}" if number else name) for name, number, origin in sources]


def _sources(tracker: Mapping[str, Any]) -> list[tuple[int, Origin]]:
    """Return the sources of an input by their numbers: 0 is the whole stream, others are origins."""
    inputs = tracker["coalescer"]["inputs"]
    names = tracker["origins"].to_list()
    keys = [key for key, _, _ in tracker["coalescer"]["keys"]]
    sources = []
    for number, status in enumerate(inputs["status"].to_list()):
        if _STATUS[status] != "absent":
            times = {key: known_datetime(inputs[f"time_{key}"][number]) for key in keys}
            sources.append((number, Origin(None if number == 0 else names[number], _STATUS[status], times)))
    return sources


def stored_gaps(tracker: Mapping[str, Any], plan: Mapping[str, str]) -> list[Gap]:
    """Return the gaps in the numbers of the user, as metrics show them and ``skip_gap`` takes them."""
    if "inputs" not in tracker:
        return _gaps_of_input(tracker, plan.get("watermark", ""))
    return [
        replace(gap, origin=name if gap.origin is None else f"{name}: {gap.origin}")
        for (name, text), known in zip(_inputs(plan).items(), tracker["inputs"], strict=False)
        for gap in _gaps_of_input(known, text)
    ]


def _inputs(plan: Mapping[str, str]) -> dict[str, str]:
    """The texts of the inputs in a fingerprint, by name."""
    return {name.removeprefix("input "): text for name, text in plan.items() if name.startswith("input ")}


def _gaps_of_input(tracker: Mapping[str, Any], rule: str) -> list[Gap]:
    progress = SequenceProgress()
    progress.restore(dict(tracker))
    status, names = tracker["coalescer"]["inputs"]["status"], tracker["origins"]
    first = _FIRST_SEQUENCE.search(rule)
    shift = 0 if first is None else int(first[1]) - FIRST  # stored numbers begin with FIRST
    unpolled = tracker["clock"][1] if tracker["clock"] else 0
    return [
        Gap(
            names[gap.origin] if gap.origin else None,
            gap.first + shift,
            gap.last + shift,
            as_datetime(gap.since + unpolled),
        )
        for gap in progress.gaps()
        if gap.origin < len(status) and _STATUS[status[gap.origin]] != "absent"
    ]
