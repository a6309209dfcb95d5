"""Random histories whose state moves between the driver and buckets, as ``eventide rescale`` moves it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import polars as pl
import pytest

from eventide.plan.pipeline import Pipeline
from eventide.spark.shuffle_pages import traits_of
from eventide.testing.hosts import BundleResult, LocalHost
from tests.driver.harness import DriverHost
from tests.effort import SEED, examples
from tests.oracle.histories import FAMILIES, SCHEMA, History, frame_of, pipeline_of, random_histories
from tests.pages.test_histories import as_ordered, seen
from tests.spark.harness import PagesHost

HISTORIES = examples(40)
_EACH = examples(4)
_PLANS = max(1, HISTORIES // (len(FAMILIES) * _EACH))


class MovedHost:
    """State that is in the driver or in buckets, and moves at random."""

    def __init__(self, place: Path, pipeline: Pipeline, rng: Random) -> None:
        self._driver = DriverHost(place, pipeline, SCHEMA)
        self._pages = PagesHost(pipeline, SCHEMA)
        self._in_driver = True
        self._can_coalesce = not any(traits_of(plan).looks_up_origins for plan in pipeline.plans)
        self._rng = rng
        self._last: int | None = None  # the time of the last batch

    def bundle(self, rows: pl.DataFrame, *, now: int, watermark: int | None, polled: bool) -> BundleResult:
        """Move, perhaps, then process the bundle."""
        if self._last is not None and self._rng.random() < 0.4:
            if self._in_driver:
                coalesced = self._can_coalesce and self._rng.random() < 0.5
                self._pages.restore(self._driver.stored(self._rng.choice([1, 2, 5]), coalesced=coalesced))
            else:
                self._driver.restore(self._pages.stored(1), now=self._last)
            self._in_driver = not self._in_driver
        self._last = now
        host = self._driver if self._in_driver else self._pages
        return host.bundle(rows, now=now, watermark=watermark, polled=polled)


def difference(history: History, rng: Random, place: Path) -> str | None:
    """Return where a history that moves differs from one in process."""
    pipeline = pipeline_of(history.spec, history.source)
    local, moved = LocalHost(pipeline, SCHEMA), MovedHost(place, pipeline, rng)
    for number, push in enumerate(history.pushes):
        rows = as_ordered(frame_of(push.rows))
        expected, actual = (
            seen(host.bundle(rows, now=push.now, watermark=push.note, polled=True)) for host in (local, moved)
        )
        if expected != actual:
            return f"bundle {number} of {history!r}\n{expected}\n{actual}"
    return None


@pytest.mark.parametrize("family", FAMILIES)
def test_state_that_moves_between_placements_gives_what_one_process_gives(family: str, tmp_path: Path) -> None:
    for number in range(_PLANS):
        seed = f"{SEED}/placements/{family}/{number}"
        rng = Random(seed)
        for count, history in enumerate(random_histories(rng, family, _EACH)):
            mismatch = difference(history, rng, tmp_path / f"{number}-{count}")
            assert mismatch is None, f"seed {seed!r}: {mismatch}"
