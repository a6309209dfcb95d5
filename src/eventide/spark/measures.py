"""What a bundle says of itself, as numbers that add up over the buckets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from eventide.operators.bundle import Output
from eventide.operators.saving import State
from eventide.spark.command_effects import CommandEffect, plain
from eventide.time import MIN

REASONS = ("null_time", "future", "duplicate", "out_of_retention", "failed", "bad_row", "no_window")
SUMS = (
    "rows",
    "kept",
    "late",
    *(f"dead_{reason}" for reason in REASONS),
    "refined",
    "unemitted",
    "panes_early",
    "panes_on_time",
    "panes_late",
    "retractions",
    "open_windows",
    "in_flight",
    "pages",
    "state_bytes",
    "written",
    "cache_hits",
    "buckets",
)


def measured(output: Output, state: State, sizes: dict[str, int]) -> dict[str, int]:
    """The counts of one bucket. Sums over the buckets are those of the batch."""
    counts = output.counts
    found = {
        "rows": counts.rows,
        "kept": counts.kept,
        "late": counts.late,
        **{f"dead_{reason}": number for reason, number in counts.dead.items()},
        "refined": counts.refined,
        "unemitted": counts.unemitted,
        **{f"panes_{timing.lower()}": number for timing, number in counts.panes.items()},
        "retractions": counts.retractions,
        "open_windows": output.open_panes,
        "in_flight": output.in_flight,
        "buckets": 1,
        **sizes,
    }
    return {name: number for name, number in found.items() if number} | {"watermark": state.watermark}


def progress_detail(state: State, *, operation: str, before: int = MIN, commands: Sequence[CommandEffect] = ()) -> str:
    """Return what the watermark waits for and what moved it, as JSON; the same in every bucket.

    ``before`` is the watermark at the start of the batch.
    """
    known = state.tracker.metrics()
    facts: dict[str, Any] = {
        "operation": operation,
        "previous_watermark": before,
        "commands": plain(commands),
        "least_origin": known.least_origin,
        "origins": known.origins,
        "idle_origins": list(known.idle_origins[:100]),
        "idle": len(known.idle_origins),
        "gaps": len(known.gaps),
        "slowest": known.slowest,
        "renumbered_origins": list(known.renumbered_origins),
    }
    return json.dumps(facts)
