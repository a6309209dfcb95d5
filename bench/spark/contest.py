"""Runs contestants in turn on the same files into the same sink, checks that they agree, and reports their rates."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
from pyspark.sql import DataFrame, SparkSession

from bench.measure import Line
from bench.spark import data
from bench.spark.agreement import compare, final_table
from bench.spark.machine import Watch
from bench.spark.queries import Run, scratch, start_session
from bench.spark.settings import ENOUGH_SECONDS, ROUNDS

Query = Callable[[SparkSession, Path, Path], Run]  # of files, into Parquet files below a folder
Table = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class Peer:
    """Whom Eventide is compared with: a query that may be run in several ways, of which the fastest counts.

    A slow peer may take only the first ``files``; then rates are compared, and results on those files.
    """

    name: str
    ways: Mapping[str, Query]
    files: int | None = None


@dataclass
class Contestant:
    """A query, the files that it takes, and the runs that were timed."""

    query: Query
    files: Path
    runs: list[Run] = field(default_factory=list)
    result: pl.DataFrame = field(default_factory=pl.DataFrame)  # of the run that warms up
    emitted: int = 0  # rows of that run

    def warm_up(self, spark: SparkSession) -> Run:
        """Run once without counting the time, and keep the result."""
        with scratch("results") as place:
            run = self.query(spark, self.files, place)
            self.result, self.emitted = final_table(place / "out"), run.emitted
        return run

    def race(self, spark: SparkSession) -> Run:
        """Run once more, timed."""
        with scratch("results") as place:
            self.runs.append(self.query(spark, self.files, place))
        return self.runs[-1]

    @property
    def rows(self) -> int:
        return data.rows_in(self.files)

    @property
    def rate(self) -> float:
        """Rows per second of the best whole run."""
        return self.rows / min(run.seconds for run in self.runs)

    @property
    def steady_rate(self) -> float:
        """Rows per second of the best run's median batch."""
        per_batch = self.rows / len(list(self.files.glob("*.parquet")))
        return per_batch / min(run.steady_batch for run in self.runs)

    @property
    def cpu(self) -> float:
        """Processor seconds for a million rows; hardly depends on what else the machine does."""
        return min(run.cpu for run in self.runs) / self.rows * 1_000_000

    @property
    def steady_result(self) -> bool:
        """Whether all runs have emitted the same number of rows."""
        return {run.emitted for run in self.runs} == {self.emitted}


def contest(files: Path, ours: Mapping[str, Query], peer: Peer, *, table: Table) -> list[Line]:
    """A line for each of Eventide's queries, all against the same runs of the peer.

    ``table`` gives all windows of rows that do not stream: how many there are to compare.
    """
    shared = files if peer.files is None else data.head(files, peer.files)
    eventide = {name: Contestant(query, files) for name, query in ours.items()}
    others = {name: Contestant(query, shared) for name, query in peer.ways.items()}
    with Watch() as watch:
        spark = start_session()
        _race(spark, {**eventide, **others})
        if shared != files:  # results are compared on the files that both take
            for contestant in eventide.values():
                contestant.files = shared
                contestant.warm_up(spark)
                contestant.files = files
        windows = table(spark.read.parquet(str(shared))).count()
    fastest = max(others.values(), key=lambda contestant: contestant.rate)
    ways = {f"peer_{way}": round(contestant.rate) for way, contestant in others.items()}
    return [_line(name, contestant, peer, fastest, windows, watch, ways) for name, contestant in eventide.items()]


def _line(
    name: str, ours: Contestant, peer: Peer, other: Contestant, windows: int, watch: Watch, ways: Mapping[str, float]
) -> Line:
    again = other.steady_result and (ours.files != other.files or ours.steady_result)
    agreement = compare(ours.result, other.result, windows=windows, again=again)
    return Line(
        name,
        round(ours.rate),
        round(other.rate),
        peer.name,
        round(ours.rate / other.rate, 3),
        "rows/s",
        watch.total_mb,
        agreement.equal,
        {
            "steady": round(ours.steady_rate),
            "peer_steady": round(other.steady_rate),
            "steady_ratio": round(ours.steady_rate / other.steady_rate, 3),
            "cpu_s_per_million": round(ours.cpu, 2),
            "peer_cpu_s_per_million": round(other.cpu, 2),
            "cpu_ratio": round(other.cpu / ours.cpu, 3),
            **ways,
            "windows_compared": agreement.compared,
            "windows": agreement.windows,
            "rounds": len(ours.runs),
            "python_peak_rss_mb": watch.python_mb,
            "load_before": watch.load_before,
        },
    )


def _race(spark: SparkSession, contestants: Mapping[str, Contestant]) -> None:
    """All in turn, so that a busy machine hurts all alike; first each once, so that the JVM has compiled all."""
    for name, contestant in contestants.items():
        say(f"{name}, warm-up", contestant.warm_up(spark))
    begin = time.perf_counter()
    for number in range(ROUNDS):
        for name, contestant in contestants.items():
            say(f"{name}, round {number + 1}", contestant.race(spark))
        if time.perf_counter() - begin > ENOUGH_SECONDS:
            return


def say(what: str, ended: Run) -> None:
    """To stderr: only results go to stdout."""
    slow = ", ".join(f"{seconds:.2f}" for seconds in ended.batches)
    print(
        f"{what}: {ended.seconds:.1f} s, {ended.cpu:.1f} s of processors, {ended.emitted:,} emitted, batches {slow}",
        file=sys.stderr,
        flush=True,
    )
