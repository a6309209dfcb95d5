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
from eventide.time import MAX


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

    def bundle(
        self,
        rows: pl.DataFrame | Sequence[pl.DataFrame],
        *,
        now: int,
        watermark: int | None,
        polled: bool,
        key: int | str | None = None,
    ) -> Came:
        """Process a bundle at batch time ``now``; ``watermark`` comes from outside.

        Of several inputs, ``rows`` has a frame for each. ``key`` says whose watermark it is; MAX ends that input.
        """
        ...


Schema: TypeAlias = Mapping[str, pl.DataType]
StartHost: TypeAlias = Callable[[Sequence[Pipeline], "Schema | Sequence[Schema]"], Host]


class LocalHost:
    """Pipelines in this process, each fed with the panes of the one before."""

    def __init__(self, pipelines: Sequence[Pipeline], schema: Schema | Sequence[Schema]) -> None:
        first, *others = pipelines
        self._names = [one.name for one in first.plan.inputs]
        named = dict(zip(self._names, schema, strict=True)) if self._names else schema
        self._first = first.start_local(named)
        self._others = [over_panes(pipeline).start_local() for pipeline in others]

    def bundle(
        self,
        rows: pl.DataFrame | Sequence[pl.DataFrame],
        *,
        now: int,
        watermark: int | None,
        polled: bool,
        key: int | str | None = None,
    ) -> Came:
        """One bundle through all pipelines."""
        with warnings.catch_warnings():  # late rows are expected, or the test fails
            warnings.simplefilter("ignore", LateRowsWarning)
            return self._bundle(rows, now, watermark, polled, key)

    def wait_for_calls(self, answers: int | None = None) -> None:
        """Wait for calls of any pipeline that span bundles."""
        for query in (self._first, *self._others):
            query.wait_for_calls(answers)

    def _bundle(
        self,
        rows: pl.DataFrame | Sequence[pl.DataFrame],
        now: int,
        watermark: int | None,
        polled: bool,
        key: int | str | None,
    ) -> Came:
        if isinstance(rows, pl.DataFrame):
            step = self._first.push(rows, now=now, watermark=watermark, polled=polled)
        elif watermark == MAX:
            step = self._first.drain(now=now) if key is None else self._first.end(str(key), now=now)
        else:
            named = dict(zip(self._names, rows, strict=True))
            step = self._first.push(named, now=now, watermark=watermark, key=key, polled=polled)
        reached, counts = step.watermark, step.counts
        late, dead = [step.late], [step.dead]
        for query in self._others:
            step = query.follow(step, now=now, polled=polled)
            late.append(step.late)
            dead.append(step.dead)
        return Came(step.panes, late, dead, reached, counts)
