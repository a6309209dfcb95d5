"""The examples in the docstrings of ``ev.Query``, which need a running query, are run on one."""

from __future__ import annotations

import doctest
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
from pyspark.sql import SparkSession

import eventide as ev
from tests.spark.running import Stream

REVENUE = (
    ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("10 seconds"))
    .window(ev.tumbling("1 minute"))
    .agg(total=ev.sum("price"))
)
ROWS = pl.DataFrame(
    {
        "ts": [datetime(2026, 3, 1, 12, 0, second, tzinfo=UTC) for second in (5, 30)]
        + [datetime(2026, 3, 1, 12, 1, 20, tzinfo=UTC)],
        "shop": ["kiel", "oslo", "kiel"],
        "price": [1, 2, 3],
    },
    schema_overrides={"ts": pl.Datetime("us", "UTC")},
)


def examples(name: str) -> str:
    """Return the docstring of a member of ``Query``, or of the class, without the marks that skip its examples."""
    member = ev.Query if name == "Query" else getattr(ev.Query, name)
    return str(member.__doc__).replace("# doctest: +SKIP", "")


def test_every_public_member_has_an_example_that_runs(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path).put(ROWS)
    query = stream.run(REVENUE, available_now=False, interval="0 seconds", name="revenue")
    query.process_all_available()
    members = [name for name in vars(ev.Query) if not name.startswith("_")]
    members.sort(key="stop".__eq__)  # the query runs until then
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    try:
        for name in members:
            test = doctest.DocTestParser().get_doctest(examples(name), {"query": query}, name, None, None)
            assert test.examples, name
            assert runner.run(test).failed == 0, name
    finally:
        query.stop()
