"""What happened, as the data of a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import polars as pl

from eventide.plan.plan import IngestionTime, Plan
from eventide.testing.picture import Event, Fate, Pane
from eventide.testing.shapes import Row, Shape
from eventide.time import MAX, MIN, time_column


def events(
    plan: Plan, bundle: pl.DataFrame, shape: Shape, rows: Sequence[Row], now: int, gone: dict[Fate, list[Row]]
) -> list[Event]:
    """The rows of a bundle, each with what became of it; a row without a time has no place in a picture."""
    if isinstance(plan.time, IngestionTime) or plan.time not in bundle.columns:
        times: list[int | None] = [now] * bundle.height
    else:
        times = time_column(bundle, plan.time)[0].to_list()
    fates = {fate: Counter(_identity(row, bundle.columns) for row in came) for fate, came in gone.items()}
    told = []
    for row, time in zip(rows, times, strict=True):
        fate = _fate(_identity(row, bundle.columns), fates)
        if time is not None:
            told.append(Event(time, now, _label(plan, shape, row), fate))
    return told


def panes(shape: Shape, rows: Iterable[Row], now: int) -> list[Pane]:
    """Panes as a picture shows them."""
    told = []
    for row in rows:
        start, end = row["window"]
        values = [(name, shape.text(name, row[name])) for name in shape.values]
        label = values[0][1] if len(values) == 1 else " ".join(f"{name}={text}" for name, text in values)
        key = " ".join(shape.text(name, row[name]) for name in shape.key)
        low, high = MIN if start is None else start, MAX if end is None else end
        told.append(Pane(key, low, high, now, label, row["timing"], row["diff"]))
    return told


def _fate(identity: str, fates: dict[Fate, Counter[str]]) -> Fate:
    for fate, rows in fates.items():
        if rows[identity] > 0:
            rows[identity] -= 1
            return fate
    return "window"


def _identity(row: Row, columns: Sequence[str]) -> str:
    return repr([row.get(name) for name in columns])


def _label(plan: Plan, shape: Shape, row: Row) -> str:
    """A row's own values; its key, where it has none."""
    aside = {*plan.key, *plan.watermark.columns(), "window", "diff", plan.time if isinstance(plan.time, str) else ""}
    names = [name for name in shape.values if name not in aside] or list(plan.key)
    return " ".join(shape.text(name, row[name]) for name in names) or "·"
