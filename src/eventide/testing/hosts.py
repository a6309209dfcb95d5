"""Where a test runs its pipeline. The local host is one; any other that takes bundles one by one will do."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import polars as pl

from eventide.errors import LateRowsWarning
from eventide.operators.bundle import Counts
from eventide.plan.pipeline import Pipeline, over_panes


@dataclass(frozen=True)
class Came:
    """What a bundle gave: the panes of the last pipeline, the late and dead rows of all."""

    panes: pl.DataFrame
    late: Sequence[pl.DataFrame]
    dead: Sequence[pl.DataFrame]
    watermark: int  # of the first pipeline, after the bundle
    counts: Counts


class Host(Protocol):
    """A running query."""

    def bundle(self, rows: pl.DataFrame, *, now: int, watermark: int | None, polled: bool) -> Came:
        """Process a bundle at batch time ``now``; ``watermark`` is one that is told from outside."""
        ...


StartHost: TypeAlias = Callable[[Sequence[Pipeline], Mapping[str, pl.DataType]], Host]


class LocalHost:
    """Pipelines in this process, each fed with the panes of the one before."""

    def __init__(self, pipelines: Sequence[Pipeline], schema: Mapping[str, pl.DataType]) -> None:
        first, *others = pipelines
        self._first = first.open(schema)
        self._others = [over_panes(pipeline).open() for pipeline in others]

    def bundle(self, rows: pl.DataFrame, *, now: int, watermark: int | None, polled: bool) -> Came:
        """One bundle through all pipelines."""
        with warnings.catch_warnings():  # late rows are expected, or the test fails
            warnings.simplefilter("ignore", LateRowsWarning)
            return self._bundle(rows, now=now, watermark=watermark, polled=polled)

    def _bundle(self, rows: pl.DataFrame, *, now: int, watermark: int | None, polled: bool) -> Came:
        step = self._first.push(rows, now=now, watermark=watermark, polled=polled)
        reached, counts = step.watermark, step.counts
        late, dead = [step.late], [step.dead]
        for query in self._others:
            step = query.follow(step, now=now, polled=polled)
            late.append(step.late)
            dead.append(step.dead)
        return Came(step.panes, late, dead, reached, counts)
