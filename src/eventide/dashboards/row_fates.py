"""What became of all rows of a query, for each operator: in windows, late, or dead letters by reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from eventide.dashboards.history_tables import DEAD, OTHER, TIMINGS, HistoryTables
from eventide.operators.operator import is_balanced
from eventide.spark.history_totals import add_counts
from eventide.time import instant

_KEPT = {"window": "in windows", "join": "in the join", "processor": "processed"}
_COUNTS = ("rows", "kept", "late", "refined", "retractions")


def fates_of(tables: HistoryTables) -> list[dict[str, Any]]:
    """Return what became of the rows of each operator. ``rows = kept + late + dead``, always.

    Batches that the history no longer holds are counted, too. ``since`` is the time of the first batch that was
    counted; None: all batches were.
    """
    operators = tables.before.get("operators", {})
    depths = sorted({0, *map(int, operators), *tables.newest})
    since = _since(tables)
    return [_fate(tables, depth, operators.get(str(depth), {})) | {"since": since} for depth in depths]


def _fate(tables: HistoryTables, depth: int, before: Mapping[str, Any]) -> dict[str, Any]:
    counts = add_counts(before, _counts_of(tables.batches.filter(pl.col("depth") == depth)))
    operation = str(tables.newest.get(depth, {}).get("operation", "window"))
    balanced = is_balanced(counts["rows"], counts["kept"], counts["late"], counts["dead"])
    return {"operator": depth, "kept_as": _KEPT.get(operation, operation), "balanced": balanced, **counts}


def _counts_of(batches: pl.DataFrame) -> dict[str, Any]:
    sums = batches.select(pl.col(*_COUNTS, *DEAD, *TIMINGS.values()).sum()).row(0, named=True)
    dead = {name.removeprefix("dead_"): sums[name] for name in DEAD if name != OTHER and sums[name]}
    if sums[OTHER]:
        other = batches.select("other_reasons", "other_rows").drop_nulls().explode("other_reasons", "other_rows")
        dead |= dict(other.group_by("other_reasons", maintain_order=True).sum().rows())
    panes = {timing: sums[column] for timing, column in TIMINGS.items()}
    return {name: sums[name] for name in _COUNTS} | {"dead": dead, "panes": panes}


def _since(tables: HistoryTables) -> int | None:
    batches = tables.batches
    if tables.before.get("since") is not None:
        return None if tables.before.get("batch") == 0 else instant(tables.before["since"])
    return None if batches.is_empty() or batches["batch"].min() == 0 else int(batches["at"][0])
