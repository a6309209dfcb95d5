"""The counts of batches that a history no longer holds, so that totals do not shrink when a full file is replaced.

A new file begins with a line of totals: the sums of all batches before it, for each operator. The newest of them may be
repeated, so its entries are in the line instead of in the sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

COUNTS = ("rows", "kept", "late", "refined", "retractions")
MAPPINGS = ("dead", "panes")


def totals_of(entries: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the totals of a history, for the line with which its next file begins.

    Of a repeated batch the last attempt counts. ``batch`` and ``since`` are those of the first batch of all.

    >>> line = {"batch": 0, "depth": 0, "at": "2026-03-01T12:00:00Z", "rows": 3, "kept": 2, "dead": {"future": 1}}
    >>> totals = totals_of([line, line | {"batch": 1}, line | {"batch": 1}])
    >>> totals["operators"]["0"]["rows"], [entry["batch"] for entry in totals["newest"]]
    (3, [1])
    """
    entries = iter(entries)
    begin = next(entries, {})
    before: Mapping[str, Any] = begin.get("totals", {})
    batches: dict[tuple[int, str, int], Mapping[str, Any]] = {}  # in the order of their times
    for entry in chain([begin], before.get("newest", ()), entries):
        if "depth" in entry and "batch" in entry and "at" in entry:
            batches[int(entry["batch"]), str(entry["at"]), int(entry["depth"])] = entry
    oldest, newest = next(iter(batches), (None, None, 0)), next(reversed(batches), (None, None, 0))[:2]
    sums: dict[str, dict[str, Any]] = {depth: dict(counts) for depth, counts in before.get("operators", {}).items()}
    for key, entry in batches.items():
        if key[:2] != newest:
            sums[str(key[2])] = add_counts(sums.get(str(key[2]), {}), entry)
    return {
        "batch": before.get("batch", oldest[0]),
        "since": before.get("since", oldest[1]),
        "operators": sums,
        "newest": [entry for key, entry in batches.items() if key[:2] == newest],
    }


def add_counts(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sums of two counts of rows, dead letters by reason and panes by timing.

    >>> add_counts({"rows": 2, "dead": {"future": 1}}, {"rows": 1, "late": 1})["rows"]
    3
    """
    counts: dict[str, Any] = {name: int(left.get(name) or 0) + int(right.get(name) or 0) for name in COUNTS}
    return counts | {name: dict(Counter(left.get(name) or {}) + Counter(right.get(name) or {})) for name in MAPPINGS}
