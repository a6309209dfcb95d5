"""What holds for every transcript."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from eventide.panes import WINDOW
from eventide.plan import Pipeline
from eventide.testing.hosts import BundleResult, LocalHost
from eventide.testing.transcripts import Transcript, load, run

HERE = Path(__file__).parent
LOADED = {t.name: t for file in sorted(HERE.glob("*.yaml")) for t in load(file) if t.rejected is None}
TRANSCRIPTS = {name: t for name, t in LOADED.items() if t.pipeline.plans[-1].operation == "window"}
RETRACTING = [name for name, t in TRANSCRIPTS.items() if t.pipeline.plans[-1].mode == "retracting"]


class Watched(LocalHost):
    """The local host, which remembers what each bundle gave."""

    def __init__(self, pipeline: Pipeline, schema: Mapping[str, pl.DataType], seen: list[BundleResult]) -> None:
        super().__init__(pipeline, schema)
        self.seen = seen

    def bundle(self, rows: pl.DataFrame | Sequence[pl.DataFrame], **observed: Any) -> BundleResult:
        self.seen.append(super().bundle(rows, **observed))
        return self.seen[-1]


def again(name: str) -> list[BundleResult]:
    seen: list[BundleResult] = []
    run(TRANSCRIPTS[name], host=lambda pipeline, schema: Watched(pipeline, schema, seen))
    return seen


watched = cache(again)


def panes(name: str) -> pl.DataFrame:
    return pl.concat([came.panes for came in watched(name)])


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_retractions_are_first_and_rows_are_ordered_by_window_and_key(name: str) -> None:
    key = TRANSCRIPTS[name].pipeline.plans[-1].key
    for came in watched(name):
        ends = came.panes.select("diff", "window_end", "window_start", *key)
        assert ends.equals(
            ends.sort(
                "diff", "window_end", "window_start", *key, nulls_last=[False, True, False, *([False] * len(key))]
            )
        )


@pytest.mark.parametrize("name", RETRACTING)
def test_diffs_add_up_to_the_panes_that_remain(name: str) -> None:
    came = panes(name)
    key = TRANSCRIPTS[name].pipeline.plans[-1].key
    sums = came.group_by([*key, *WINDOW, *TRANSCRIPTS[name].pipeline.plans[-1].aggregates]).agg(pl.col("diff").sum())
    assert set(sums["diff"]) <= {0, 1}
    standing = sums.filter(pl.col("diff") == 1)
    assert standing.select(*key, *WINDOW).is_unique().all()


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_timings_and_indexes_are_in_order(name: str) -> None:
    key = TRANSCRIPTS[name].pipeline.plans[-1].key
    observed = panes(name).filter(pl.col("diff") == 1)
    for window in observed.partition_by([*key, *WINDOW], maintain_order=True):
        index = window["pane_index"].to_list()
        assert index == list(range(len(index)))
        timings = [["EARLY", "ON_TIME", "LATE"].index(timing) for timing in window["pane_timing"]]
        assert timings == sorted(timings)
        assert timings.count(1) <= 1
        assert window["pane_is_last"].to_list()[:-1] == [False] * (len(index) - 1)


@pytest.mark.parametrize(
    "name", [name for name, t in TRANSCRIPTS.items() if t.pipeline.plans[-1].row_grain == "windows"]
)
def test_key_window_index_and_diff_identify_a_pane_in_its_bundle(name: str) -> None:
    """Readers of a topic recognize a repeated pane by them."""
    key = TRANSCRIPTS[name].pipeline.plans[-1].key
    for came in watched(name):
        assert came.panes.select(*key, *WINDOW, "pane_index", "diff").is_unique().all()


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_the_same_bundles_give_the_same_rows(name: str) -> None:
    for first, other in zip(watched(name), again(name), strict=True):
        assert first.panes.equals(other.panes)
        assert all(a.equals(b) for a, b in zip([*first.late, *first.dead], [*other.late, *other.dead], strict=True))


@pytest.mark.long
@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_a_transcript_can_fail(name: str) -> None:
    """Without the last thing that it expects, or with something else in its place, it does."""
    with pytest.raises(AssertionError):
        run(_mutant(TRANSCRIPTS[name]))


def _mutant(transcript: Transcript) -> Transcript:
    for i, step in reversed(list(enumerate(transcript.steps))):
        change: dict[str, Any] = {}
        if step.expect or step.late or step.dead:
            change = {"expect": (), "late": (), "dead": (), "counts": None}
        elif step.reaches is not None:
            change = {"reaches": "06:06:06"}
        elif step.fails is not None:
            change = {"fails": "no such text"}
        elif step.counts:
            change = {"counts": {name: count + 1 for name, count in step.counts.items()}}
        if change:
            steps = [*transcript.steps[:i], replace(step, **change), *transcript.steps[i + 1 :]]
            return replace(transcript, steps=steps)
    raise ValueError(f"{transcript.name!r} expects nothing")
