"""Origins and keys that change all the time: what is forgotten, with state in the driver, and how large state is."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

import eventide as ev
from eventide.testing.hosts import LocalHost
from eventide.time import MAX
from tests.driver.harness import Checkpoint, Driver, DriverHost
from tests.pages.test_histories import seen

SCHEMA = {"t": pl.Int64(), "device": pl.String(), "v": pl.Int64()}
SECOND = 1_000_000


def per_device(*, forget: str | None) -> ev.Pipeline:
    """Windows of three rows of each device, which is also the origin of its rows."""
    watermark = ev.bounded_delay("1 second", origin="device", idle_timeout="5 seconds", forget_after=forget)
    stream = ev.stream(time="t", key="device", watermark=watermark)
    return stream.window(ev.rows(3, forget_after=forget)).agg(n=ev.count(), total=ev.sum("v"))


def by_offset(*, forget: str | None) -> ev.Pipeline:
    """Windows of three offsets of each device."""
    watermark = ev.bounded_delay("1 second", origin="device", idle_timeout="5 seconds", forget_after=forget)
    return ev.stream(time="t", watermark=watermark).window(ev.rows(3, by="v")).agg(n=ev.count())


def fleet(devices: int) -> Iterator[pl.DataFrame]:
    """A batch for each second: ``devices`` that are new, each with two rows, and one that stays."""
    for second in itertools.count():
        names = [f"device {second}-{number}" for number in range(devices)] * 2 + ["steady"]
        values = [1] * devices + [2] * devices + [second + 1]
        yield pl.DataFrame({"t": [second * SECOND] * len(names), "device": names, "v": values}, schema=SCHEMA)


@pytest.mark.parametrize("pipeline", [per_device, by_offset])
def test_a_restarted_driver_forgets_as_one_process_does(pipeline, tmp_path: Path) -> None:
    chosen = pipeline(forget="20 seconds")
    fates = itertools.cycle(["", "restart", "", "repeat"])
    driver = DriverHost(tmp_path, chosen, SCHEMA, memory=0, tasks=2, fate=lambda: next(fates))
    hosts = LocalHost(chosen, SCHEMA), driver
    for second, rows in enumerate(itertools.islice(fleet(3), 60)):
        here, there = (seen(host.bundle(rows, now=second * SECOND, watermark=None, polled=True)) for host in hosts)
        assert here == there, second
    here, there = (seen(host.bundle(rows.clear(), now=100 * SECOND, watermark=MAX, polled=True)) for host in hosts)
    assert here == there


def sizes(pipeline: ev.Pipeline, place: Path, *, batches: int, devices: int) -> list[int]:
    """The bytes of state after each batch."""
    checkpoint, observed = Checkpoint(place), []
    driver = Driver(checkpoint, pipeline, [SCHEMA], retain=2)
    for second, rows in enumerate(itertools.islice(fleet(devices), batches)):
        checkpoint.log_offsets(second, second * SECOND)
        delivery = driver.batch(second, [rows])
        counts = delivery.operators[0]["counts"]
        observed.append(counts["state_bytes"])
    return observed


@pytest.mark.parametrize("pipeline", [per_device, by_offset])
def test_state_follows_the_devices_that_are_active(pipeline, tmp_path: Path) -> None:
    growing = sizes(pipeline(forget=None), tmp_path / "grows", batches=90, devices=200)
    bounded = sizes(pipeline(forget="10 seconds"), tmp_path / "bounded", batches=90, devices=200)
    assert max(bounded[60:]) < 1.5 * max(bounded[20:40])
    assert 2 * max(bounded[60:]) < growing[-1]


def test_metrics_and_inspect_count_what_was_forgotten(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    driver = Driver(checkpoint, per_device(forget="10 seconds"), [SCHEMA])
    origins = keys = 0
    for second, rows in enumerate(itertools.islice(fleet(2), 40)):
        checkpoint.log_offsets(second, second * SECOND)
        operator = driver.batch(second, [rows]).operators[0]
        keys += operator["counts"].get("forgotten_keys", 0)
        origins += json.loads(operator["detail"])["forgotten_origins"]
    (state,) = ev.inspect(tmp_path, pipeline=per_device(forget="10 seconds"))
    assert state.forgotten_origins == origins > 40
    assert 81 - len(state.origins) == origins
    assert keys > 40


@pytest.mark.long
@pytest.mark.parametrize("pipeline", [per_device, by_offset])
def test_a_fleet_whose_ids_change_for_a_long_time_keeps_its_state_bounded(pipeline, tmp_path: Path) -> None:
    observed = sizes(pipeline(forget="100 seconds"), tmp_path, batches=1_500, devices=300)
    assert max(observed[1_000:]) < 1.2 * max(observed[200:500])
