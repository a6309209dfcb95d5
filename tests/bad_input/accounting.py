"""Every row is accounted for: in a window, late, or a dead letter. Counted again from the outputs, not believed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

import eventide as ev
from eventide.local import LocalResult
from eventide.plan import Stream

SECOND = 1_000_000
KINDS: dict[str, Any] = {
    "tumbling": ev.tumbling("10s"),
    "sessions": ev.sessions("10s"),
    "cut sessions": ev.sessions("10s", max_duration="1m"),
    "rows": ev.rows(2),
    "row sessions": ev.row_sessions(absent=3),
    "global": ev.global_window(),
}


def stream(*, key: str | None = "k", watermark: Any = None) -> Stream:
    """Rows with a time ``t``."""
    return ev.stream(time="t", key=key, watermark=watermark or ev.bounded_delay("0s"))


def counted(stream: Stream, **aggregates: ev.Aggregate) -> ev.Pipeline:
    """A pipeline over windows that do not overlap, whose ``n`` tells how many rows each pane has."""
    return stream.agg(n=ev.count(), **aggregates)


def check(pipeline: ev.Pipeline, bundles: Sequence[pl.DataFrame], *, step: int = 0) -> LocalResult:
    """Run, drain, and count all rows again from the outputs."""
    result = pipeline.local(bundles, clock=[i * step for i in range(len(bundles))])
    observed = int((result.panes["n"] * result.panes["diff"]).sum())
    assert sum(frame.height for frame in bundles) == observed + result.late.height + result.dead.height
    counts = result.metrics
    assert counts.balanced and counts.kept == observed
    assert (counts.late, sum(counts.dead.values())) == (result.late.height, result.dead.height)
    assert counts.dead == dict(result.dead["ev_reason"].value_counts().iter_rows())
    return result


def reasons(result: LocalResult) -> list[str]:
    """Why rows are dead letters, in their order."""
    return result.dead["ev_reason"].to_list()
