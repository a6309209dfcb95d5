"""Expressions and queries from a seed, which DuckDB computes too."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)


def rows(count: int, seed: int = 1) -> pl.DataFrame:
    """Rows with nulls, zeros, negative numbers and empty texts."""
    draw = random.Random(seed)
    some: dict[str, list[Any]] = {
        "a": [None, -7, -1, 0, 1, 2, 3, 12],
        "b": [None, -2, 0, 1, 3, 5],
        "c": [0, 1, 2, 3],
        "f": [None, -2.5, -0.25, 0.0, 1.5, 8.0],
        "g": [0.5, 2.0, -4.0],
        "s": [None, "", "a", "ab", "Ba", "b_%", "xyz"],
        "t": ["a", "b", "ab", "%"],
        "p": [None, True, False],
        "q": [True, False],
    }
    columns = {name: [draw.choice(values) for _ in range(count)] for name, values in some.items()}
    times = [BEGIN + timedelta(seconds=draw.randrange(600)) for _ in range(count)]
    types = {"a": pl.Int64, "b": pl.Int64, "c": pl.Int64}
    return pl.DataFrame({"id": range(count), "ts": times, **columns}, schema_overrides=types)


class Expressions:
    """Draws expressions of a type. Most operands stand without brackets, so that precedence decides."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def any(self, depth: int = 3) -> str:
        return self.draw.choice([self.number, self.text, self.truth, self.truth])(depth)

    def number(self, depth: int) -> str:
        if depth == 0:
            return self.draw.choice(["a", "b", "c", "f", "g", "1", "2", "3", "7", "0.5E0"])
        return self.draw.choice([self._sum, self._sum, self._product, self._negative, self._of_numbers, self._case])(
            depth
        )

    def text(self, depth: int) -> str:
        if depth == 0:
            return self.draw.choice(["s", "t", "'a'", "'ab'", "''"])
        form = self.draw.choice(
            [
                "{0} || {1}",
                "UPPER({0})",
                "LOWER({0}) || {1}",
                "COALESCE({0}, {1})",
                "NULLIF({0}, {1})",
                "CASE WHEN {2} THEN {0} ELSE {1} END",
                "SUBSTRING({0}, 1, 2)",
                "REPLACE({0}, 'a', 'c')",
                "TRIM({0})",
            ]
        )
        return form.format(self.text(depth - 1), self.text(depth - 1), self.truth(depth - 1))

    def truth(self, depth: int) -> str:
        if depth == 0:
            return self.draw.choice(["p", "q", "TRUE", "FALSE", "a > b", "s = t"])
        kinds = [self._compared, self._compared, self._connected, self._connected, self._not, self._is, self._ranged]
        return self.draw.choice([*kinds, self._like])(depth)

    def _sum(self, depth: int) -> str:
        return f"{self._factor(depth)} {self.draw.choice('+-')} {self._factor(depth)}"

    def _factor(self, depth: int) -> str:
        """A number that may be next to + and - without brackets."""
        return self.draw.choice([self._product, self._atom, self._negative])(depth)

    def _product(self, depth: int) -> str:
        operator = self.draw.choice(["*", "*", "/", "%"])
        if operator == "%":
            return f"{self._whole()} % {self._whole()}"
        return f"{self._atom(depth)} {operator} {self._atom(depth)}"

    def _whole(self) -> str:
        return self.draw.choice(["a", "b", "c", "3", "(a + 5)", "-b"])

    def _atom(self, depth: int) -> str:
        return self.number(0) if depth <= 1 or self.draw.random() < 0.5 else f"({self.number(depth - 1)})"

    def _negative(self, depth: int) -> str:
        return f"-{self._atom(depth)}"

    def _of_numbers(self, depth: int) -> str:
        form = self.draw.choice(
            ["ABS({0})", "COALESCE({0}, {1})", "NULLIF({0}, {1})", "GREATEST({0}, {1})", "LEAST({0}, {1})"]
        )
        return form.format(self.number(depth - 1), self.number(depth - 1))

    def _case(self, depth: int) -> str:
        inner = depth - 1
        return f"CASE WHEN {self.truth(inner)} THEN {self.number(inner)} ELSE {self.number(inner)} END"

    def _compared(self, depth: int) -> str:
        operator = self.draw.choice(["=", "<>", "<", "<=", ">", ">="])
        side = self.draw.choice([self._factor, self.text])
        return f"{side(depth - 1)} {operator} {side(depth - 1)}"

    def _connected(self, depth: int) -> str:
        return f"{self.truth(depth - 1)} {self.draw.choice(['AND', 'OR'])} {self.truth(depth - 1)}"

    def _not(self, depth: int) -> str:
        return f"NOT {self.truth(depth - 1)}"

    def _is(self, depth: int) -> str:
        kind = self.draw.randrange(4)
        operator = self.draw.choice(["IS", "IS NOT"])
        if kind == 0:
            return f"{self._factor(depth - 1)} {operator} DISTINCT FROM {self._factor(depth - 1)}"
        if kind == 1:
            return (
                f"{self.draw.choice(['p', 'a > b', 's = t'])} {operator} {self.draw.choice(['TRUE', 'FALSE', 'NULL'])}"
            )
        if kind == 2:
            return f"({self.truth(depth - 1)}) {operator} DISTINCT FROM {self.draw.choice(['p', 'q'])}"
        return f"{self.draw.choice([self._factor, self.text])(depth - 1)} {operator} NULL"

    def _ranged(self, depth: int) -> str:
        negated = self.draw.choice(["", "NOT "])
        number = self._factor(depth - 1)
        if self.draw.random() < 0.5:
            return f"{number} {negated}BETWEEN {self._factor(depth - 1)} AND {self._factor(depth - 1)}"
        return f"{number} {negated}IN (1, {self.number(0)}, {self.draw.choice(['NULL', '2'])})"

    def _like(self, depth: int) -> str:
        pattern = self.draw.choice(["'a%'", "'%b'", "'_'", "'%!_%' ESCAPE '!'"])
        return f"{self.text(depth - 1)} {self.draw.choice(['', 'NOT '])}LIKE {pattern}"


AGGREGATES = (
    *("COUNT(*)", "COUNT({n})", "SUM({w})", "MIN({n})", "MAX({n})", "AVG({w})", "COUNT(DISTINCT {w})"),
    *("COUNT(*) FILTER (WHERE {p})", "SUM({w}) FILTER (WHERE {p})", "MIN({s})", "MAX({s})", "SUM(a) + COUNT(*)"),
)
WINDOWS = {
    "TUMBLE(rows, DESCRIPTOR(ts), INTERVAL '2' MINUTE)": (120, 120),
    "TUMBLE(rows, DESCRIPTOR(ts), INTERVAL '7' SECOND)": (7, 7),
    "HOP(rows, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '3' MINUTE)": (60, 180),
}


def query(seed: int) -> tuple[str, str]:
    """A query for Eventide, and the same for DuckDB."""
    return (_join if seed % 4 == 3 else _grouped)(Expressions(seed))


def _grouped(expressions: Expressions) -> tuple[str, str]:
    draw = expressions.draw
    table, (every, size) = draw.choice(list(WINDOWS.items()))
    keys = draw.sample(["c", "t", "c * 2 + 1", "s IS NULL", "COALESCE(s, t)", "q AND a > 0"], draw.randrange(3))
    values = [
        aggregate.format(
            n=expressions.number(1),
            w=draw.choice(["a", "b", "c", "a * c", "b - c"]),
            p=expressions.truth(2),
            s=expressions.text(1),
        )
        for aggregate in draw.sample(AGGREGATES, 3)
    ]
    columns = [
        *(f"{key} AS k{i}" for i, key in enumerate(keys)),
        *(f"{value} AS v{i}" for i, value in enumerate(values)),
    ]
    group = ", ".join([*keys, "window_start", "window_end"])
    where = f"WHERE {expressions.truth(2)}" if draw.random() < 0.6 else ""
    having = draw.choice(["", "", "HAVING COUNT(*) > 1", "HAVING SUM(c) IS DISTINCT FROM 2 AND COUNT(*) > 1"])
    selected = f"SELECT {', '.join(columns)}, window_start AS w"
    start = f"time_bucket(INTERVAL '{every} seconds', ts, TIMESTAMPTZ '1970-01-01 00:00:00+00')"
    bucketed = (
        f"(SELECT *, {start} - step * INTERVAL '{every} seconds' AS window_start, "
        f"window_start + INTERVAL '{size} seconds' AS window_end FROM rows, range({size // every}) AS steps(step))"
    )
    return tuple(f"{selected} FROM {source} {where} GROUP BY {group} {having}" for source in (table, bucketed))  # type: ignore[return-value]


def _join(expressions: Expressions) -> tuple[str, str]:
    draw = expressions.draw
    how = draw.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
    further = draw.choice(["", "AND l.a IS NOT DISTINCT FROM r.a AND l.q", "AND l.a < r.b", "AND NOT l.q OR r.q"])
    bound = "r.ts BETWEEN l.ts - INTERVAL '5' SECOND AND l.ts + INTERVAL '10' SECOND"
    on = f"l.c = r.c AND {bound} AND (TRUE {further})"
    where = draw.choice(["", "WHERE l.a > 0", "WHERE r.s = 'a' OR l.a IS NULL AND r.q", "WHERE l.id <> r.id"])
    columns = "l.id, r.id AS other, l.a + r.b AS total, l.s || r.t AS said, l.c AS lc, r.c AS rc"
    text = f"SELECT {columns} FROM rows AS l {how} rows AS r ON {on} {where}"
    return text, text
