"""Files of a scan that cannot be read: named, and counted once."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import eventide as ev
from eventide.operators.factory import operator_of
from eventide.operators.operator import Step
from eventide.spark.scan import Unreadable, _read
from eventide.spark.shuffle_pages import Stage
from eventide.spark.stamp import dead_letter_pages
from eventide.spark.stateful import apply_pages
from eventide.time import MIN
from tests.processors.cases import RunningTotal

SCHEMA = {"ts": pl.Int64(), "shop": pl.String(), "price": pl.Int64()}
SHOPS = ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("1s"))
MINUTES = SHOPS.window(ev.tumbling("1 minute"))


def test_a_damaged_file_is_named_by_one_of_its_parts(tmp_path: Path) -> None:
    path = tmp_path / "damaged.parquet"
    path.write_bytes(b"PAR1 nothing of use PAR1")
    (result,) = _read(str(path), SCHEMA, 0, 2)
    assert isinstance(result, Unreadable) and "damaged.parquet" in result.rows and result.reason
    assert list(_read(str(path), SCHEMA, 1, 2)) == []


def test_a_damaged_page_names_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "damaged.parquet"
    pl.DataFrame({"ts": range(1000), "shop": "a", "price": range(1000)}).write_parquet(path, compression="zstd")
    body = bytearray(path.read_bytes())
    body[4:400] = b"\xff" * 396
    path.write_bytes(bytes(body))
    (result,) = _read(str(path), SCHEMA, 0, 1)
    assert isinstance(result, Unreadable) and result.rows.startswith("rows 1 to 1000 of the file")


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    (result,) = _read(str(tmp_path / "gone.parquet"), SCHEMA, 0, 1)
    assert isinstance(result, Unreadable) and "No such file" in result.reason


PLANS = {
    "windows": MINUTES.agg(n=ev.count()),
    "batch time": ev.stream(time=ev.ingestion_time(), key="shop").window(ev.tumbling("1m")).agg(n=ev.count()),
    "row windows": SHOPS.window(ev.rows(2)).agg(n=ev.count()),
    "interval join": ev.join(SHOPS, SHOPS, within="1m"),
    "window join": ev.window_join(SHOPS, SHOPS, window=ev.tumbling("1m")),
    "processor": SHOPS.process(RunningTotal(), output={"shop": pl.String, "total": pl.Int64}),
}


@pytest.mark.parametrize("buckets", [1, 3])
@pytest.mark.parametrize("name", PLANS)
def test_a_file_becomes_one_dead_letter_in_any_plan(name: str, buckets: int) -> None:
    plan = PLANS[name].plan
    schemas = tuple(SCHEMA for _ in plan.edges)
    stage = Stage(f"bad file {name} {buckets}", plan, schemas, buckets)
    pages = list(dead_letter_pages(stage, "the file 'x' cannot be read: why", 10, 0, len(schemas) - 1))
    steps: list[Step] = []
    for page in pages:
        step, _ = apply_pages(stage, operator_of(plan, *schemas).initial(), [page.row()], {})
        steps.append(step)
    letters = pl.concat([step.output.dead for step in steps])
    assert letters["ev_reason"].to_list() == ["bad_row"] and "'x'" in letters["ev_detail"][0]
    counts = [step.output.counts for step in steps]
    assert sum(count.rows for count in counts) == 1 == sum(sum(count.dead.values()) for count in counts)
    assert all(step.state.watermark == MIN for step in steps)
