"""Benchmarks on Spark. Nothing here imports Spark before a benchmark runs: the local ones need none of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from bench.measure import Line

T = TypeVar("T")
Group: TypeAlias = Callable[[Sequence[str]], list[Line]]


def _tumbling_many(names: Sequence[str]) -> list[Line]:
    from bench.spark.windows import tumbling

    return tumbling(names, 100_000)


def _tumbling_few(names: Sequence[str]) -> list[Line]:
    from bench.spark.windows import tumbling

    return tumbling(names, 100)


def _sliding_100(names: Sequence[str]) -> list[Line]:
    from bench.spark.windows import sliding

    return sliding(names, 100)


def _sliding_10k(names: Sequence[str]) -> list[Line]:
    from bench.spark.windows import sliding

    return sliding(names, 10_000)


def _sessions(names: Sequence[str]) -> list[Line]:
    from bench.spark.windows import sessions

    return sessions(names, 100_000)


def _triggers(names: Sequence[str]) -> list[Line]:
    from bench.spark.triggers import triggers

    return triggers(names, 10_000)


def _row_windows(names: Sequence[str]) -> list[Line]:
    from bench.spark.row_windows import row_windows

    return row_windows(names, 100_000)


def _row_windows_10k(names: Sequence[str]) -> list[Line]:
    from bench.spark.row_windows import row_windows

    return row_windows(names, 10_000)


def _small_batches(names: Sequence[str]) -> list[Line]:
    from bench.spark.small_batches import small_batches

    return [small_batches()]


def _batch_cost(names: Sequence[str]) -> list[Line]:
    from bench.spark.batch_cost import batch_cost

    return batch_cost(names)


def _source(names: Sequence[str]) -> list[Line]:
    from bench.spark.source import source

    return source(names)


def _first_result(names: Sequence[str]) -> list[Line]:
    from bench.spark.first_result import first_result

    return first_result(names)


def _two_queries(names: Sequence[str]) -> list[Line]:
    from bench.spark.two_queries import two_queries

    return [two_queries()]


def _backlog(names: Sequence[str]) -> list[Line]:
    from bench.spark.backlog import backlog_50m

    return [backlog_50m()]


def _restart(names: Sequence[str]) -> list[Line]:
    from bench.spark.restart import restart

    return [restart(name) for name in names]


def _rescale(names: Sequence[str]) -> list[Line]:
    from bench.spark.rescale import rescale

    return [rescale()]


def _buckets(names: Sequence[str]) -> list[Line]:
    from bench.spark.buckets import bucket_cost

    return bucket_cost(names)


def _progress_origins(names: Sequence[str]) -> list[Line]:
    from bench.spark.buckets import progress_origins

    return [progress_origins()]


def _sink_postgres(names: Sequence[str]) -> list[Line]:
    from bench.spark.sink_postgres import sink_postgres

    return [sink_postgres()]


def _latency(names: Sequence[str]) -> list[Line]:
    from bench.spark.latency import latency_end_to_end

    return [latency_end_to_end()]


def _interval_join_many(names: Sequence[str]) -> list[Line]:
    from bench.spark.joins import interval_join

    return interval_join(names, 100_000)


def _interval_join_few(names: Sequence[str]) -> list[Line]:
    from bench.spark.joins import interval_join

    return interval_join(names, 100)


def _long_join(names: Sequence[str]) -> list[Line]:
    from bench.spark.joins import long_join

    return [long_join()]


def _nexmark(names: Sequence[str]) -> list[Line]:
    from bench.spark.nexmark import nexmark

    return nexmark(names)


BATCH_COST = (
    "batch_cost_1k",
    "batch_cost_10k",
    "batch_cost_100k",
    "batch_cost_1m",
    "batch_cost_plain_session_1k",
    "batch_cost_plain_session",
    "batch_cost_plain_session_1m",
)
NEXMARK = ("nexmark_q5", "nexmark_q7", "nexmark_q8", "nexmark_q11", "nexmark_q12", "nexmark_q17")

# State in the driver, and with ``df.transform`` on the executors; rows that Spark reads, and a fused scan.
_ENDS = ("", "_fused", "_transform", "_transform_fused")


def _placements(name: str, value: T) -> dict[str, T]:
    return {f"{name}{end}": value for end in _ENDS}


def _aims(name: str, *least: float) -> dict[str, str]:
    return {f"{name}{end}": f"at least {ratio:g}" for end, ratio in zip(_ENDS, least, strict=True)}


# Lines of one group are measured in one run of a process, against the same runs of the peer.
BENCHMARKS: dict[str, Group] = {
    **_placements("tumbling_many_keys", _tumbling_many),
    **_placements("tumbling_few_keys", _tumbling_few),
    **_placements("sliding_100", _sliding_100),
    **_placements("sliding_10k", _sliding_10k),
    **_placements("sessions", _sessions),
    **_placements("triggers", _triggers),
    "row_windows": _row_windows,
    "row_windows_10k": _row_windows_10k,
    **dict.fromkeys(BATCH_COST, _batch_cost),
    "small_batches": _small_batches,
    "first_result": _first_result,
    "first_result_plain_session": _first_result,
    "backlog_50m": _backlog,
    "restart": _restart,
    "restart_panes": _restart,
    "rescale": _rescale,
    "transform_1k": _buckets,
    "buckets_20": _buckets,
    "buckets_200": _buckets,
    "progress_origins": _progress_origins,
    "sink_postgres": _sink_postgres,
    "two_queries": _two_queries,
    "latency_end_to_end": _latency,
    "interval_join_many_keys": _interval_join_many,
    "interval_join_few_keys": _interval_join_few,
    "long_join": _long_join,
    **dict.fromkeys(NEXMARK, _nexmark),
    "source": _source,
    "source_columns": _source,
    "source_windows": _source,
    "source_fused": _source,
}
TARGETS = {
    **_aims("tumbling_many_keys", 4, 6, 3, 3),
    **_aims("tumbling_few_keys", 1, 2.5, 1, 1),
    **_aims("sliding_100", 4, 5, 5, 5),
    **_aims("sliding_10k", 6, 6, 5, 5),
    **_aims("sessions", 4, 4, 3, 3),
    **_aims("triggers", 40, 40, 40, 40),
    "row_windows": "at least 30",
    "row_windows_10k": "at least 30",
    "batch_cost_1k": "at most 0.6",
    "batch_cost_10k": "at most 0.6",
    "batch_cost_100k": "at most 0.8",
    "batch_cost_1m": "",
    "batch_cost_plain_session_1k": "at most 0.1",
    "batch_cost_plain_session": "at most 0.1",
    "batch_cost_plain_session_1m": "",
    "small_batches": "at most 1.5, below 100 ms",
    "first_result": "at most 1",
    "first_result_plain_session": "at most 0.4",
    "backlog_50m": "below 2,000 MB",
    "restart": "at most 5 s more",
    "restart_panes": "at most 5 s more",
    "rescale": "at most 1",
    "transform_1k": "at most 1.2",
    "buckets_20": "at most 1.5",
    "buckets_200": "at most 1.5",
    "progress_origins": "at most 1.5",
    "sink_postgres": "at least 2, driver below 400 MB",
    "two_queries": "at most 2",
    "latency_end_to_end": "at most 0.7",
    "interval_join_many_keys": "at least 2",
    "interval_join_few_keys": "at least 2",
    "long_join": "about 1",
    **dict.fromkeys(NEXMARK, "at least 1.5"),
    "source": "at least 0.7",
    "source_columns": "at least 0.7",
    "source_windows": "at least 0.7",
    "source_fused": "at least 0.7",
}
