"""What depends on the order of rows does not depend on how Spark divides a batch among its tasks."""

from __future__ import annotations

from random import Random
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.operators.row_order import ordered_rows
from eventide.time import MAX
from tests.spark.harness import PagesHost

SCHEMA = {"t": pl.Int64(), "k": pl.String(), "v": pl.Int64(), "x": pl.Float64()}
STREAM = ev.stream(time="t", key="k", watermark=ev.bounded_delay("10 microseconds"))
SEEN = {"all": ev.collect_list("v"), "sum": ev.sum("x"), "first": ev.first("v"), "last": ev.last("v")}


class Numbers(ev.Processor):
    """Numbers the rows of a batch as it gets them."""

    def process(self, edge: str, rows: pl.DataFrame) -> None:
        self.emit(rows.select("k", "v", at=pl.int_range(pl.len()).over("k")))


PLANS: dict[str, Any] = {
    "rows": STREAM.window(ev.rows(7)).agg(**SEEN),
    "sliding rows": STREAM.window(ev.rows(7, every=3)).agg(**SEEN),
    "rows of all keys": ev.stream(time="t", watermark=ev.bounded_delay("10 microseconds"))
    .window(ev.rows(7))
    .agg(**SEEN),
    "row sessions": STREAM.window(ev.row_sessions(absent=2)).agg(**SEEN),
    "bounded": STREAM.window(ev.tumbling("20 microseconds")).limit_state(rows=3).agg(**SEEN),
    "processor": STREAM.process(Numbers(), output={"k": pl.String, "v": pl.Int64, "at": pl.Int64}),
}


def rows_of(seed: int) -> pl.DataFrame:
    rng = Random(seed)
    rows = [(seed * 20 + rng.randrange(12), rng.choice("ab"), rng.randrange(9), rng.random()) for _ in range(120)]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def observed(pipeline: ev.Pipeline, bundles: list[pl.DataFrame], tasks: int) -> list[Any]:
    host = PagesHost(pipeline, SCHEMA, tasks=tasks)
    panes = [host.bundle(rows, now=at, watermark=None, polled=True).panes for at, rows in enumerate(bundles)]
    panes.append(host.bundle(bundles[0].clear(), now=9, watermark=MAX, polled=True).panes)
    return sorted(repr(row) for frame in panes for row in frame.rows())


@pytest.mark.parametrize("plan", PLANS)
def test_another_number_of_tasks_gives_the_same_panes(plan: str) -> None:
    bundles = [rows_of(seed) for seed in range(3)]
    once = observed(PLANS[plan], bundles, 1)
    assert once
    for tasks in (2, 5):
        # Other tasks read other parts of the files: rows come in another order too.
        assert (
            observed(PLANS[plan], [rows.sample(fraction=1, shuffle=True, seed=tasks) for rows in bundles], tasks)
            == once
        )


def test_rows_of_any_type_have_an_order() -> None:
    n = pl.int_range(pl.len())
    rows = pl.DataFrame({"__time": [1] * 50}).with_columns(
        text=n.cast(pl.String),
        category=n.cast(pl.String).cast(pl.Categorical),
        wide=n.cast(pl.Int128),
        lists=pl.concat_list(n.cast(pl.String).cast(pl.Categorical)),
        arrays=pl.concat_list(n).list.to_array(1),
        structs=pl.struct(a=n % 3 == 0, b=n.cast(pl.Decimal(20, 2))),
        nothing=pl.when(n % 2 == 0).then(n),
    )
    shuffled = rows.sample(fraction=1, shuffle=True, seed=1)
    assert not shuffled.equals(rows)
    assert ordered_rows(shuffled).equals(ordered_rows(rows))
