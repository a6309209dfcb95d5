"""Every aggregate with a model of it: what it must give for the rows of one key, in plain Python.

A row is a dict. ``at`` is its event time; ``n`` whole numbers, ``q`` quarters (their sums are exact),
``wild`` floats with NaN and infinities, ``s`` texts; each may be None.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

import eventide.aggregates as ev

Rows = list[dict[str, Any]]

SCHEMA = {
    "key": pl.String(),
    "at": pl.Int64(),
    "n": pl.Int64(),
    "q": pl.Float64(),
    "wild": pl.Float64(),
    "s": pl.String(),
}


@dataclass(frozen=True)
class Case:
    name: str
    aggregate: ev.Aggregate
    model: Callable[[Rows], Any]
    dtype: pl.DataType
    retracts: bool = True
    close: Callable[[Any, Any], bool] | None = None
    """When a result is good enough; by default it must be equal."""

    def agrees(self, result: Any, expected: Any) -> bool:
        return (self.close or same)(result, expected)


def same(first: Any, other: Any) -> bool:
    if isinstance(first, float) and isinstance(other, float):
        return (math.isnan(first) and math.isnan(other)) or first == other
    if isinstance(first, list) and isinstance(other, list):
        return len(first) == len(other) and all(map(same, first, other))
    if isinstance(first, dict) and isinstance(other, dict):
        return first.keys() == other.keys() and all(same(first[k], other[k]) for k in first)
    return type(first) is type(other) and first == other


def nearly(first: Any, other: Any) -> bool:
    if first is None or other is None:
        return first is other
    return math.isclose(first, other, rel_tol=1e-9, abs_tol=1e-9) or (math.isnan(first) and math.isnan(other))


def known(rows: Rows, column: str) -> list[Any]:
    return [row[column] for row in rows if row[column] is not None]


def spark_order(value: Any) -> Any:
    """NaN is greater than everything, and null stands last."""
    if value is None:
        return (2, 0)
    return (1, 0) if isinstance(value, float) and math.isnan(value) else (0, value)


def or_null(function: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    return lambda values: function(values) if values else None


def on(column: str, function: Callable[[list[Any]], Any]) -> Callable[[Rows], Any]:
    return lambda rows: function(known(rows, column))


least = or_null(lambda values: min(values, key=spark_order))
greatest = or_null(lambda values: max(values, key=spark_order))


def first(rows: Rows) -> Any:
    return min(rows, key=lambda r: (r["at"], spark_order(r["n"])))["n"] if rows else None


def last(rows: Rows) -> Any:
    return max(rows, key=lambda r: (r["at"], spark_order(r["n"])))["n"] if rows else None


def with_known(column: str, model: Callable[[Rows], Any]) -> Callable[[Rows], Any]:
    return lambda rows: model([r for r in rows if r[column] is not None])


def min_by(rows: Rows) -> Any:
    return min(in_time(rows), key=lambda r: spark_order(r["wild"]))["s"] if rows else None


def max_by(rows: Rows) -> Any:
    return max(in_time(rows), key=lambda r: spark_order(r["wild"]))["s"] if rows else None


def in_time(rows: Rows) -> Rows:
    return sorted(rows, key=lambda r: (r["at"], spark_order(r["s"])))


def collect(rows: Rows) -> list[Any]:
    return known(in_time(rows), "s")


def top_by_key(rows: Rows) -> list[Any]:
    latest: dict[str, tuple[int, int]] = {}
    for row in sorted(rows, key=lambda r: (r["at"], spark_order(r["n"]))):
        if row["s"] is not None and row["n"] is not None and row["at"] >= latest.get(row["s"], (-99, 0))[0]:
            latest[row["s"]] = (row["at"], row["n"])
    ranked = sorted(latest.items(), key=lambda item: (-item[1][1], item[0]))
    return [{"key": key, "value": value} for key, (_, value) in ranked[:2]]


def percentile(q: float) -> Callable[[list[Any]], float]:
    def of(values: list[Any]) -> float:
        values = sorted(values)
        position = (len(values) - 1) * q
        below, above = math.floor(position), math.ceil(position)
        if values[below] == values[above]:
            return float(values[below])
        return values[below] * (above - position) + values[above] * (position - below)

    return of


def mode(values: list[Any]) -> Any:
    counts = Counter(values)
    return min(values, key=lambda v: (-counts[v], v))


def wild_sum(values: list[float]) -> float:
    special = [v for v in values if not math.isfinite(v)]
    return sum(special) if special else math.fsum(values)


def rank_is_near(result: Any, values: Any) -> bool:
    """For few values a quantile must lie at most one rank off."""
    if result is None or not values:
        return result is None and not values
    ranks = sorted(values)
    low, high = sum(v < result for v in ranks), sum(v <= result for v in ranks)
    return low - 1 <= 0.5 * len(ranks) <= high + 1


class Range(ev.Aggregate):
    """One's own, as expressions."""

    def bind(self, source: ev.Source) -> ev.Parts:
        low, high = "Range.low", "Range.high"
        return ev.Parts(
            [
                ev.Accumulator(low, pl.Int64(), pl.col("n").min(), pl.col(low).min()),
                ev.Accumulator(high, pl.Int64(), pl.col("n").max(), pl.col(high).max()),
            ],
            pl.col(high) - pl.col(low),
        )


class Words(ev.Aggregate):
    """One's own, row by row, with a state that is changed in place and can be undone."""

    dtype = pl.Int64()

    def create(self) -> Counter[str]:
        return Counter()

    def add(self, state: Counter[str], row: dict[str, Any]) -> Counter[str]:
        state[str(row["s"])] += 1
        return state

    def remove(self, state: Counter[str], row: dict[str, Any]) -> Counter[str]:
        state[str(row["s"])] -= 1
        return state

    def merge(self, first: Counter[str], other: Counter[str]) -> Counter[str]:
        first.update(other)
        return first

    def result(self, state: Counter[str]) -> int:
        return sum(count > 0 for count in state.values())


class Spelled(ev.Aggregate):
    """One's own, row by row, without merge: rows are kept."""

    dtype = pl.String()
    reads = "s"

    def create(self) -> str:
        return ""

    def add(self, state: str, value: str) -> str:
        return state + value


def by_bits(first: int, other: int) -> int:
    return first | other


def xor(first: int, other: int) -> int:
    return first ^ other


def spelled(rows: Rows) -> str:
    return "".join(str(row["s"]) for row in sorted(rows, key=_in_order))


def _in_order(row: dict[str, Any]) -> Any:
    """By event time, then by content: column by column, nulls first, as Polars sorts structs."""
    return row["at"], [(row[name] is not None, spark_order(row[name])) for name in SCHEMA]


def low_and_all(rows: Rows) -> dict[str, Any]:
    return {"low": least(known(rows, "n")), "all": sorted(set(known(rows, "n")))}


INT, FLOAT, TEXT = pl.Int64(), pl.Float64(), pl.String()

CASES = [
    Case("count", ev.count(), len, INT),
    Case("count_of", ev.count("n"), on("n", len), INT),
    Case("sum", ev.sum("n"), on("n", or_null(sum)), INT),
    Case("sum_of_floats", ev.sum("q"), on("q", or_null(math.fsum)), FLOAT),
    Case("sum_of_wild_floats", ev.sum("wild"), on("wild", or_null(wild_sum)), FLOAT),
    Case("mean", ev.mean("n"), on("n", or_null(lambda v: sum(v) / len(v))), FLOAT),
    Case("mean_of_floats", ev.mean("q"), on("q", or_null(lambda v: math.fsum(v) / len(v))), FLOAT),
    Case("min", ev.min("n"), on("n", least), INT),
    Case("max", ev.max("n"), on("n", greatest), INT),
    Case("min_of_wild_floats", ev.min("wild"), on("wild", least), FLOAT),
    Case("max_of_wild_floats", ev.max("wild"), on("wild", greatest), FLOAT),
    Case("min_of_text", ev.min("s"), on("s", least), TEXT),
    Case("var", ev.var("q"), on("q", lambda v: statistics.variance(v) if len(v) > 1 else None), FLOAT, close=nearly),
    Case("std", ev.std("n"), on("n", lambda v: statistics.stdev(v) if len(v) > 1 else None), FLOAT, close=nearly),
    Case("first", ev.first("n"), first, INT),
    Case("last", ev.last("n"), last, INT),
    Case("first_known", ev.first("n", ignore_nulls=True), with_known("n", first), INT),
    Case("last_known", ev.last("n", ignore_nulls=True), with_known("n", last), INT),
    Case(
        "min_by",
        ev.min_by("s", "wild"),
        with_known("wild", min_by),
        TEXT,
    ),
    Case(
        "max_by",
        ev.max_by("s", "wild"),
        with_known("wild", max_by),
        TEXT,
    ),
    Case(
        "top_n", ev.top_n("wild", 2), on("wild", lambda v: sorted(v, key=spark_order, reverse=True)[:2]), pl.List(FLOAT)
    ),
    Case(
        "top_n_by_key",
        ev.top_n_by_key("n", "s", 2),
        top_by_key,
        pl.List(pl.Struct({"key": TEXT, "value": INT})),
    ),
    Case("collect", ev.collect_list("s"), collect, pl.List(TEXT)),
    Case("count_distinct", ev.count_distinct("s"), on("s", lambda v: len(set(v))), INT),
    Case("collect_set", ev.collect_set("s"), on("s", lambda v: sorted(set(v))), pl.List(TEXT)),
    Case("sort", ev.collect_sorted("wild"), on("wild", lambda v: sorted(v, key=spark_order)), pl.List(FLOAT)),
    Case(
        "sort_down", ev.collect_sorted("n", descending=True), on("n", lambda v: sorted(v, reverse=True)), pl.List(INT)
    ),
    Case("median", ev.median("n"), on("n", or_null(percentile(0.5))), FLOAT, close=nearly),
    Case("quantile", ev.quantile("q", 0.3), on("q", or_null(percentile(0.3))), FLOAT, close=nearly),
    Case("mode", ev.mode("n"), on("n", or_null(mode)), INT),
    Case("approx_distinct", ev.approx_distinct("s"), on("s", lambda v: len(set(v))), INT, retracts=False),
    Case("approx_quantile", ev.approx_quantile("n", 0.5), on("n", list), FLOAT, retracts=False, close=rank_is_near),
    Case(
        "reduce", ev.reduce(by_bits, "n"), on("n", or_null(lambda v: functools.reduce(by_bits, v))), INT, retracts=False
    ),
    Case(
        "fold",
        ev.fold(0, xor, merge=xor, column="n"),
        on("n", lambda v: functools.reduce(xor, v, 0)),
        INT,
        retracts=False,
    ),
    Case("fold_in_order", ev.fold("", lambda a, r: a + str(r["s"]), dtype=TEXT), spelled, TEXT, retracts=False),
    Case("own_expressions", Range(), on("n", or_null(lambda v: max(v) - min(v))), INT, retracts=False),
    Case("own_rowwise", Words(), lambda rows: len({str(r["s"]) for r in rows}), INT),
    Case(
        "own_without_merge",
        Spelled(),
        lambda rows: "".join(collect(rows)),
        TEXT,
    ),
    Case(
        "composite",
        ev.composite(low=ev.min("n"), all=ev.collect_set("n")),
        low_and_all,
        pl.Struct({"low": INT, "all": pl.List(INT)}),
    ),
]


def first_text(rows: Rows) -> Any:
    return min(rows, key=lambda r: (r["at"], spark_order(r["s"])))["s"] if rows else None


POSITIVE = pl.col("q") > 0


def filtered(name: str, aggregate: ev.Aggregate) -> Case:
    """A case with a condition: its model sees only the rows for which it is true."""
    case = next(case for case in CASES if case.name == name)

    def model(rows: Rows) -> Any:
        return case.model([row for row in rows if row["q"] is not None and row["q"] > 0])

    return replace(case, name=f"{name}_where", aggregate=aggregate, model=model)


CASES += [
    Case("first_of_text", ev.first("s"), first_text, TEXT),
    Case("sum_of_expression", ev.sum(pl.col("n") * 2 + 1), on("n", or_null(lambda v: sum(2 * n + 1 for n in v))), INT),
    Case("fold_of_rows", ev.fold(0, lambda n, row: n + 1, merge=lambda a, b: a + b), len, INT, retracts=False),
]
CASES += [
    filtered("count", ev.count(where=POSITIVE)),
    filtered("count_of", ev.count("n", where=POSITIVE)),
    filtered("sum", ev.sum("n", where=POSITIVE)),
    filtered("sum_of_floats", ev.sum("q", where=POSITIVE)),
    filtered("sum_of_expression", ev.sum(pl.col("n") * 2 + 1, where=POSITIVE)),
    filtered("mean", ev.mean("n", where=POSITIVE)),
    filtered("min", ev.min("n", where=POSITIVE)),
    filtered("max_of_wild_floats", ev.max("wild", where=POSITIVE)),
    filtered("var", ev.var("q", where=POSITIVE)),
    filtered("std", ev.std("n", where=POSITIVE)),
    filtered("first", ev.first("n", where=POSITIVE)),
    filtered("last", ev.last("n", where=POSITIVE)),
    filtered("first_of_text", ev.first("s", where=POSITIVE)),
    filtered("last_known", ev.last("n", ignore_nulls=True, where=POSITIVE)),
    filtered("min_by", ev.min_by("s", "wild", where=POSITIVE)),
    filtered("max_by", ev.max_by("s", "wild", where=POSITIVE)),
    filtered("top_n", ev.top_n("wild", 2, where=POSITIVE)),
    filtered("top_n_by_key", ev.top_n_by_key("n", "s", 2, where=POSITIVE)),
    filtered("collect", ev.collect_list("s", where=POSITIVE)),
    filtered("count_distinct", ev.count_distinct("s", where=POSITIVE)),
    filtered("collect_set", ev.collect_set("s", where=POSITIVE)),
    filtered("sort_down", ev.collect_sorted("n", descending=True, where=POSITIVE)),
    filtered("median", ev.median("n", where=POSITIVE)),
    filtered("quantile", ev.quantile("q", 0.3, where=POSITIVE)),
    filtered("mode", ev.mode("n", where=POSITIVE)),
    filtered("approx_distinct", ev.approx_distinct("s", where=POSITIVE)),
    filtered("approx_quantile", ev.approx_quantile("n", 0.5, where=POSITIVE)),
    filtered("reduce", ev.reduce(by_bits, "n", where=POSITIVE)),
    filtered("fold", ev.fold(0, xor, merge=xor, column="n", where=POSITIVE)),
    filtered("fold_of_rows", ev.fold(0, lambda n, row: n + 1, merge=lambda a, b: a + b, where=POSITIVE)),
    filtered("fold_in_order", ev.fold("", lambda a, r: a + str(r["s"]), dtype=TEXT, where=POSITIVE)),
    filtered("composite", ev.composite(low=ev.min("n", where=POSITIVE), all=ev.collect_set("n", where=POSITIVE))),
]
