"""Float sums that do not depend on the division of rows, against plain sums of Polars that do."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import polars as pl

import eventide.aggregates as ev
from bench.measure import Line, rss_mb

ROWS = 2_000_000
ROUNDS = 7


def _values(rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {
        "prices": np.round(rng.random(ROWS) * 100, 2),
        "normal": rng.standard_normal(ROWS),
        "lognormal": rng.lognormal(0, 3, ROWS),
    }


def _cases() -> dict[str, pl.DataFrame]:
    """Prices of few keys first: it stands in the table."""
    rng = np.random.default_rng(5)
    values = _values(rng)
    few, many = rng.integers(0, 100, ROWS), rng.integers(0, 20_000, ROWS)
    cases = {f"{name}_few_keys": pl.DataFrame({"key": few, "at": 0, "q": each}) for name, each in values.items()}
    cases["prices_many_keys"] = pl.DataFrame({"key": many, "at": 0, "q": values["prices"]})
    cases["prices_text_keys"] = cases["prices_few_keys"].with_columns(pl.col("key").cast(pl.String))
    return cases


def _processor_time(run: Callable[[], pl.DataFrame]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def _race(name: str, aggregate: ev.Aggregate, peer: pl.Expr, peer_name: str) -> Line:
    """Rows per second of processor time: Polars uses all cores, a task of Spark has one."""
    ratios: dict[str, float] = {}
    rates: list[tuple[float, float]] = []
    equal = True
    for case, frame in _cases().items():
        bound = ev.bind({"value": aggregate}, frame.schema, time="at")

        def ours(frame: pl.DataFrame = frame, bound: ev.Bound = bound) -> pl.DataFrame:
            return bound.results(bound.start(frame, ["key"]).cells)

        def theirs(frame: pl.DataFrame = frame) -> pl.DataFrame:
            return frame.lazy().group_by("key").agg(value=peer).collect()

        times = [(_processor_time(ours), _processor_time(theirs)) for _ in range(ROUNDS)]
        rate, peer_rate = (ROWS / min(each) for each in zip(*times, strict=True))
        rates.append((rate, peer_rate))
        ratios[case] = round(rate / peer_rate, 3)
        halves = [bound.start(frame[i::2], ["key"]).cells for i in range(2)]
        divided = bound.results(bound.merge(pl.concat(halves), ["key"])).sort("key")
        whole = ours().sort("key")
        close = np.allclose(whole["value"], theirs().sort("key")["value"], rtol=1e-9)
        equal = equal and close and divided.equals(whole)
    rate, peer_rate = rates[0]
    ratio = round(rate / peer_rate, 3)
    return Line(name, round(rate), round(peer_rate), peer_name, ratio, "rows/s", rss_mb(), equal, ratios)


def float_sums() -> Line:
    """Sums of floats."""
    return _race("float_sums", ev.sum("q"), pl.col("q").sum(), "polars group_by, sum")


def float_spread() -> Line:
    """Standard deviations of floats."""
    return _race("float_spread", ev.std("q"), pl.col("q").std(), "polars group_by, std")


TARGETS = {"float_sums": "at least 0.77", "float_spread": "at least 0.5"}
ALL = (float_sums, float_spread)
