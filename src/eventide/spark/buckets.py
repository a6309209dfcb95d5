"""Buckets: which bucket a key belongs to, and how many buckets an operator has.

The bucket of a key is part of the state format: no version may change it. It does not use Spark's hash, because keys
are hashed where they are grouped already: once per cell, not once per row.

The number of buckets follows the cores that the query can use at its first start, rounded up to a power of two: the
query can grow, and powers of two divide evenly among most numbers of cores. Spark's number of partitions is for
shuffles of any size: with its default of 200, a batch of a thousand rows would commit 200 states.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl

from eventide._arguments import is_integer
from eventide.errors import PlanError
from eventide.kernels.keys import hashed
from eventide.plan.plan import Plan
from eventide.spark.connect_session import is_connect
from eventide.spark.environment import local_cores
from eventide.state.errors import other_buckets

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.conf import RuntimeConfig

BUCKETS = "spark.eventide.buckets"
PARTITIONS = "spark.sql.shuffle.partitions"

PARTITIONS_PER_TASK = 16
"""At most so many state partitions in one task: a task that fails repeats all of them, and each holds a socket."""

_FEW_BUCKETS, _TOO_MANY = 8, 4  # for so few buckets, and up to so many partitions for each, nobody is warned
_MAX_BUCKETS = (1 << 16) - 1  # a bucket is stored as an unsigned 16-bit number
_LOCAL = re.compile(r"local(\[.*\])?")  # a master with one process, unlike local-cluster
_MAX_ALLOWED_CORES = 1000  # of dynamic allocation: a larger limit is a platform's default, not meant for this query


def bucket_of(rows: pl.DataFrame, key: Sequence[str], count: int) -> npt.NDArray[np.uint16]:
    """Return the bucket of each row.

    >>> bucket_of(pl.DataFrame({"shop": ["kiel", "bonn", "kiel"]}), ["shop"], 100).tolist()
    [9, 53, 9]
    """
    if not key or count == 1:
        return np.zeros(rows.height, np.uint16)
    return (hashed(rows, key) % np.uint64(count)).astype(np.uint16)


@cache
def bucket_labels(count: int) -> tuple[int, ...]:
    """Return the keys of buckets in the shuffle: numbers that Spark's hash spreads evenly over ``count`` partitions.

    The first label is always 0, so that a query with another number of buckets reads this state and can reject it.

    >>> sorted(murmur3(label) % 4 for label in bucket_labels(4))
    [0, 1, 2, 3]
    """
    free = set(range(count))
    labels: list[int] = []
    label = 0
    while len(labels) < count:
        partition = murmur3(label) % count
        if partition in free:
            free.remove(partition)
            labels.append(label)
        label += 1
    return tuple(labels)


def murmur3(value: int, seed: int = 42) -> int:
    """Return Spark's hash of an int column, as a signed number.

    >>> murmur3(0), murmur3(1)
    (933211791, -559580957)
    """
    word = _rotate_left(value * 0xCC9E2D51, 15) * 0x1B873593 & 0xFFFFFFFF
    mixed = _rotate_left(seed ^ word, 13) * 5 + 0xE6546B64 & 0xFFFFFFFF
    mixed ^= 4
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    mixed ^= mixed >> 16
    return mixed - 2**32 if mixed >= 2**31 else mixed


def _rotate_left(value: int, bits: int) -> int:
    value &= 0xFFFFFFFF
    return (value << bits | value >> 32 - bits) & 0xFFFFFFFF


def bucket_count(plan: Plan, spark: SparkSession, recorded: int | None = None) -> int:
    """Return the number of buckets of an operator.

    ``recorded`` is the number that its checkpoint was started with. It also applies on a machine with other cores.
    """
    if not plan.key or plan.counts_all_keys:
        return 1
    setting = spark.conf.get(BUCKETS, None)
    chosen = None if setting is None else _as_count(setting)
    if recorded is None:
        return chosen or default_buckets(query_cores(spark))
    if chosen not in (None, recorded):
        raise other_buckets(recorded, chosen or 0)
    return recorded


def default_buckets(cores: int) -> int:
    """Return the number of buckets for so many cores: the next power of two.

    >>> [default_buckets(cores) for cores in (1, 2, 3, 8, 12, 100_000)]
    [1, 2, 4, 8, 16, 65535]
    """
    return min(1 << (cores - 1).bit_length(), _MAX_BUCKETS)


def query_cores(spark: SparkSession) -> int:
    """Return the cores that a query can use: of running executors, and of those that Spark may or will start."""
    settings = spark_settings(spark)
    cores = _setting(settings, "spark.executor.cores", 1)
    requested = _setting(settings, "spark.executor.instances", 0) * cores
    allowed = _setting(settings, "spark.dynamicAllocation.maxExecutors", 0) * cores
    if settings.get("spark.dynamicAllocation.enabled", "false") != "true" or allowed > _MAX_ALLOWED_CORES:
        allowed = 0
    return max(task_slots(spark), requested, allowed)


def in_few_tasks(pages: DataFrame, buckets: int) -> DataFrame:
    """Return the output of a stateful stage in about as many tasks as cores, where all tasks run in one process.

    Each task costs Spark some milliseconds, and the unpacking of its pages a Python worker. On a cluster, every bucket
    has a task: Spark would move state between the executors of a host if one task had several buckets.
    """
    spark = pages.sparkSession
    context = getattr(spark, "sparkContext", None)
    if context is None or not _LOCAL.fullmatch(context.master):
        return pages
    partitions = max(buckets, int(spark.conf.get(PARTITIONS, None) or 0))
    tasks = max(context.defaultParallelism, -(-partitions // PARTITIONS_PER_TASK))
    return pages.coalesce(tasks) if tasks < partitions else pages


def task_slots(spark: SparkSession) -> int:
    """Return how many tasks run at the same time. A client of Spark Connect knows this of a local master only."""
    if not is_connect(spark):
        return max(1, spark.sparkContext.defaultParallelism)
    return local_cores(spark.conf.get("spark.master", "") or "") or _setting(spark.conf, "spark.default.parallelism", 1)


def spark_settings(spark: SparkSession) -> SparkConf | RuntimeConfig:
    """Return the settings that Spark was started with. A client of Spark Connect sees them through its session."""
    return spark.conf if is_connect(spark) else spark.sparkContext.getConf()


def _setting(settings: SparkConf | RuntimeConfig, name: str, default: int) -> int:
    return int(settings.get(name, "") or default)


@contextmanager
def query_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set these settings of a session while a query starts, except those that the session sets itself.

    A query keeps the settings that its session has when it starts. Spark stores the number of state partitions
    (``PARTITIONS``) in the checkpoint.
    """
    explicit = spark.conf.getAll
    defaults = {name: value for name, value in settings.items() if name not in explicit}
    for name, value in defaults.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in defaults:
            spark.conf.unset(name)


def warn_of_partitions(spark: SparkSession, buckets: int) -> None:
    """Warn of a session that sets far more state partitions than there are buckets."""
    setting = spark.conf.getAll.get(PARTITIONS, "")
    if not setting.isdecimal() or int(setting) <= _TOO_MANY * max(buckets, _FEW_BUCKETS):
        return
    warnings.warn(
        f"The session sets {PARTITIONS} to {setting}, and each of these state partitions commits in every batch. The "
        f"state has {buckets} buckets, so {buckets} are enough. Before the first start of a query: "
        f'spark.conf.set("{PARTITIONS}", "{buckets}"). A checkpoint keeps its number.',
        stacklevel=2,
    )


@contextmanager
def changed_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set these settings of a session for a while, also those that the session sets itself."""
    explicit = spark.conf.getAll
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            if name in explicit:
                spark.conf.set(name, explicit[name])
            else:
                spark.conf.unset(name)


def check_bucket_count(count: object) -> None:
    """Reject a number of buckets that no state can have."""
    if not is_integer(count, at_least=1, at_most=_MAX_BUCKETS):
        raise _bad_bucket_count("buckets", count)


def _as_count(setting: str) -> int:
    count = int(setting) if setting.strip().isdecimal() else 0
    if not 1 <= count <= _MAX_BUCKETS:
        raise _bad_bucket_count(BUCKETS, setting)
    return count


def _bad_bucket_count(name: str, value: object) -> PlanError:
    return PlanError(f"{name} is {value!r}. Set it to an integer from 1 to {_MAX_BUCKETS}, or unset it.")
