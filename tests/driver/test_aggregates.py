"""Every aggregate in every kind of window gives the same bytes, however the rows of a batch reach the driver."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import eventide as ev
from eventide.testing.hosts import LocalHost
from eventide.time import MAX
from tests.aggregates.cases import SCHEMA
from tests.aggregates.test_division import AGGREGATES, DIVISIONS, exact, pipeline_of, rows_of
from tests.driver.harness import DriverHost

ROW_WINDOWS = {
    "rows": ev.rows(7),
    "overlapping rows": ev.rows(7, every=3),
    "row sessions": ev.row_sessions(absent=3),
}
TRANSPORTS = {"rows": 0, "one task": 1, "five tasks": 5}


def emitted(host: LocalHost | DriverHost, bundles: list[pl.DataFrame]) -> list[str]:
    """All panes, to the last bit of each float."""
    panes = [host.bundle(rows, now=at, watermark=None, polled=True).panes for at, rows in enumerate(bundles)]
    panes.append(host.bundle(bundles[0].clear(), now=9, watermark=MAX, polled=True).panes)
    return sorted(repr(exact(row)) for frame in panes for row in frame.rows())


def check(pipeline: ev.Pipeline, bundles: list[pl.DataFrame], place: Path) -> None:
    expected = emitted(LocalHost(pipeline, SCHEMA), bundles)
    assert expected
    for transport, tasks in TRANSPORTS.items():
        assert emitted(DriverHost(place / transport, pipeline, SCHEMA, tasks=tasks), bundles) == expected, transport


@pytest.mark.parametrize(("window", "often"), DIVISIONS)
def test_results_do_not_depend_on_the_transport(window: str, often: bool, tmp_path: Path) -> None:
    check(pipeline_of(window, often), [rows_of(f"{window}/{i}") for i in range(2)], tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("window", ROW_WINDOWS)
def test_results_of_row_windows_do_not_depend_on_the_transport(window: str, tmp_path: Path) -> None:
    pipeline = ev.stream(time="at", key="key", watermark=ev.bounded_delay("2 seconds")).window(ROW_WINDOWS[window])
    check(pipeline.agg(**AGGREGATES), [rows_of(f"{window}/{i}") for i in range(2)], tmp_path)
