"""Runs contestants in turn on the same files, checks that they agree, and tells the ratio of their rates."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.measure import Line
from bench.spark import data
from bench.spark.agreement import Agreement, compare, final_table
from bench.spark.machine import Watch
from bench.spark.queries import Run, in_memory_state, run, scratch, start_session
from bench.spark.settings import ENOUGH_SECONDS, ROUNDS

Query = Callable[[SparkSession, Path], DataFrame]
Table = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class Variant:
    """Another way to say or to run what a peer does. It gives the results to compare; its rate is told besides."""

    name: str
    query: Query
    in_memory: bool = False


@dataclass(frozen=True)
class Peer:
    """Whom Eventide is compared with.

    A slow peer may take only the first ``files``; then rates are compared, and results on those files.
    """

    name: str
    query: Query
    variant: Variant
    files: int | None = None


@dataclass(frozen=True)
class Contestant:
    """A query, the files that it takes, and the runs that were timed."""

    query: Query
    files: Path
    runs: list[Run]

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

    def repeats(self, run: Run, files: Path) -> bool:
        """Whether a run with results has emitted as much as those that were timed, as far as that can be said."""
        return files != self.files or {run.emitted} == {timed.emitted for timed in self.runs}


def contest(files: Path, ours: Mapping[str, Query], peer: Peer, *, table: Table) -> list[Line]:
    """A line for each of Eventide's queries, all against the same runs of the peer.

    ``table`` gives all windows of rows that do not stream: how many there are to compare.
    """
    shared = files if peer.files is None else data.head(files, peer.files)
    eventide = {name: Contestant(query, files, []) for name, query in ours.items()}
    other = Contestant(peer.query, shared, [])
    with Watch() as watch:
        spark = start_session()
        _race(spark, {**eventide, peer.name: other})
        agreements, variant = _check(spark, eventide, peer, other, table)
    return [
        Line(
            name,
            round(one.rate),
            round(other.rate),
            peer.name,
            round(one.rate / other.rate, 3),
            "rows/s",
            watch.total_mb,
            agreements[name].equal,
            {
                "steady": round(one.steady_rate),
                "peer_steady": round(other.steady_rate),
                "steady_ratio": round(one.steady_rate / other.steady_rate, 3),
                "cpu_s_per_million": round(one.cpu, 2),
                "peer_cpu_s_per_million": round(other.cpu, 2),
                "cpu_ratio": round(other.cpu / one.cpu, 3),
                **variant,
                "windows_compared": agreements[name].compared,
                "windows": agreements[name].windows,
                "rounds": len(one.runs),
                "python_peak_rss_mb": watch.python_mb,
                "load_before": watch.load_before,
            },
        )
        for name, one in eventide.items()
    ]


def _race(spark: SparkSession, contestants: Mapping[str, Contestant]) -> None:
    """All in turn, so that a busy machine hurts all alike; first each once, so that the JVM has compiled all."""
    for name, one in contestants.items():
        say(f"{name}, warm-up", run(one.query(spark, one.files)))
    begin = time.perf_counter()
    for i in range(ROUNDS):
        for name, one in contestants.items():
            one.runs.append(run(one.query(spark, one.files)))
            say(f"{name}, round {i + 1}", one.runs[-1])
        if time.perf_counter() - begin > ENOUGH_SECONDS:
            return


def _check(
    spark: SparkSession, eventide: Mapping[str, Contestant], peer: Peer, other: Contestant, table: Table
) -> tuple[dict[str, Agreement], dict[str, float]]:
    """All once more, with results kept; of the peer its variant, which so tells what it gives."""
    windows = table(spark.read.parquet(str(other.files))).count()
    with scratch("results") as results:
        to = results / "peer"
        with in_memory_state(spark) if peer.variant.in_memory else nullcontext():
            told = run(peer.variant.query(spark, other.files), to=to)
        say(f"{peer.variant.name}, with results", told)
        theirs = final_table(to)
        agreements = {}
        for name, one in eventide.items():
            kept = run(one.query(spark, other.files), to=results / name)
            say(f"{name}, with results", kept)
            again = one.repeats(kept, other.files) and other.repeats(told, other.files)
            agreements[name] = compare(final_table(results / name), theirs, windows=windows, again=again)
    return agreements, {
        peer.variant.name: round(other.rows / told.seconds),
        f"{peer.variant.name}_cpu_s_per_million": round(told.cpu / other.rows * 1_000_000, 2),
    }


def say(what: str, ended: Run) -> None:
    """To stderr: only results go to stdout."""
    slow = ", ".join(f"{seconds:.1f}" for seconds in ended.batches)
    print(
        f"{what}: {ended.seconds:.1f} s, {ended.cpu:.1f} s of processors, {ended.emitted:,} emitted, batches {slow}",
        file=sys.stderr,
        flush=True,
    )
