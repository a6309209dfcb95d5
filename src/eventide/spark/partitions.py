"""How many buckets an operator has, and how many state partitions a query.

Buckets follow the cores that the query can use. Spark's own number of partitions is for shuffles of any size: with its
default of 200, a batch of a thousand rows would commit 200 states.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from eventide.errors import spark as errors
from eventide.errors import state as state_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUCKETS = "spark.eventide.buckets"
PARTITIONS = "spark.sql.shuffle.partitions"
_MOST = (1 << 16) - 1  # a bucket is stored as an unsigned 16-bit number


def bucket_count(plan: Any, spark: SparkSession, recorded: int | None = None) -> int:
    """The number of buckets of an operator.

    ``recorded`` is the number that its checkpoint was started with. It holds on a machine with other cores, too.
    """
    if not plan.key or plan.counts_all_keys:
        return 1
    setting = spark.conf.get(BUCKETS, None)
    chosen = None if setting is None else _as_count(setting)
    if recorded is None:
        return chosen or query_cores(spark)
    if chosen not in (None, recorded):
        raise state_errors.other_buckets(recorded, chosen or 0)
    return recorded


def query_cores(spark: SparkSession) -> int:
    """The cores that a query of a session can use: those that run now, or that were asked for and have yet to start."""
    context = spark.sparkContext
    settings = context.getConf()
    executors, cores = (int(settings.get(f"spark.executor.{name}", "0") or 0) for name in ("instances", "cores"))
    return min(max(1, context.defaultParallelism, executors * cores), _MOST)


@contextmanager
def settings_of_a_query(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Start a query in here: it has these settings, except for those that the session names itself.

    A query keeps the settings that its session has when it starts. Spark keeps the number of state partitions
    (``PARTITIONS``) in the checkpoint.
    """
    named = spark.conf.getAll
    chosen = {name: value for name, value in settings.items() if name not in named}
    for name, value in chosen.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in chosen:
            spark.conf.unset(name)


def check_bucket_count(count: int) -> None:
    """Reject a number of buckets that no state can have."""
    if not 1 <= count <= _MOST:
        raise errors.bad_bucket_count("buckets", str(count), _MOST)


def _as_count(setting: str) -> int:
    count = int(setting) if setting.strip().isdecimal() else 0
    if not 1 <= count <= _MOST:
        raise errors.bad_bucket_count(BUCKETS, setting, _MOST)
    return count
