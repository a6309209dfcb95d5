"""How many buckets an operator has, and how many state partitions a query.

Buckets follow the cores that the query can use. Spark's own number of partitions is for shuffles of any size: with its
default of 200, a batch of a thousand rows would commit 200 states.
"""

from __future__ import annotations

from collections.abc import Iterator
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
def state_partitions(spark: SparkSession, buckets: int) -> Iterator[None]:
    """Start a query in here: its state has as many partitions as buckets, unless the session names another number.

    Spark reads the number when a query starts for the first time, and keeps it in the checkpoint.
    """
    if PARTITIONS in spark.conf.getAll:
        yield
        return
    spark.conf.set(PARTITIONS, str(buckets))
    try:
        yield
    finally:
        spark.conf.unset(PARTITIONS)


def check_bucket_count(count: int) -> None:
    """Reject a number of buckets that no state can have."""
    if not 1 <= count <= _MOST:
        raise errors.bad_bucket_count("buckets", str(count), _MOST)


def _as_count(setting: str) -> int:
    count = int(setting) if setting.strip().isdecimal() else 0
    if not 1 <= count <= _MOST:
        raise errors.bad_bucket_count(BUCKETS, setting, _MOST)
    return count
