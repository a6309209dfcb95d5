"""Expressions, and what they are for each of four rows: in process and on Spark."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl


def at(minute: int, second: int = 0, micro: int = 0, hour: int = 12) -> datetime:
    return datetime(2026, 3, 1, hour, minute, second, micro, tzinfo=UTC)


SECOND = timedelta(seconds=1)
LAST = datetime(2025, 12, 31, 23, 59, 59, tzinfo=UTC)
VALUES = pl.DataFrame(
    {
        "row": [1, 2, 3, 4],
        "ts": [at(0)] * 4,
        "i": [-7, 7, 0, None],
        "j": [3, -3, 5, 2],
        "f": [2.5, -2.5, 2.675, None],
        "s": ["héllo", "  a-b ", "", None],
        "b": [True, False, None, True],
        "d": [at(0, 5), at(50, 10, 500_000), None, LAST],
        "l": [[1, 2], [], None, [3]],
        "t": ["2026-03-01T13:00:05+01:00", "2026-03-01T12:50:10+00:00", None, "2026-01-01T00:59:59+01:00"],
        "u": pl.Series([1, 2, 3, None], dtype=pl.UInt32),
        "tiny": pl.Series([100, -100, 0, None], dtype=pl.Int8),
        "Name.of": ["x", "y", "z", None],
    }
)

# The expression, and its values for the rows in their order.
EXPRESSIONS: dict[str, list[Any]] = {
    # numbers
    "i / j": [-7 / 3, -7 / 3, 0.0, None],
    "j / i": [-3 / 7, -3 / 7, None, None],
    "1.5 / i": [-1.5 / 7, 1.5 / 7, None, None],
    "j % i": [3, -3, None, None],
    "i DIV j": [-2, -2, 0, None],
    "j DIV i": [0, 0, None, None],
    "i * 1.5": [Decimal("-10.5"), Decimal("10.5"), Decimal(0), None],
    "(i * 1.5) / 4": [-2.625, 2.625, 0.0, None],
    "10 - i / 2 * 2": [17.0, 3.0, 10.0, None],
    "(d - ts) / 2": [SECOND * 2.5, SECOND * 1505.25, None, SECOND * -2_570_400.5],
    "ROUND(i * 0.125, 2)": [Decimal("-0.88"), Decimal("0.88"), Decimal(0), None],
    "CEIL(i * 1.5)": [-10, 11, 0, None],
    "ROUND(f)": [3.0, -3.0, 3.0, None],
    "ROUND(f, 2)": [2.5, -2.5, 2.68, None],
    "ROUND(f * 0.05, 3)": [0.125, -0.125, 0.134, None],
    "ROUND(i)": [-7, 7, 0, None],
    "ROUND(i, 2)": [-7, 7, 0, None],
    "CEIL(f)": [3, -2, 3, None],
    "FLOOR(f)": [2, -3, 2, None],
    "FLOOR(i / 2)": [-4, 3, 0, None],
    "TRUNC(f)": [2, -2, 2, None],
    "POWER(i, 2)": [49.0, 49.0, 0.0, None],
    "LN(j)": [math.log(3), None, math.log(5), math.log(2)],
    "LOG(10, j)": [math.log10(3), None, math.log10(5), math.log10(2)],
    "LOG(3, j)": [1.0, None, math.log(5, 3), math.log(2, 3)],
    "LOG2(j)": [math.log2(3), None, math.log2(5), 1.0],
    "ABS(i)": [7, 7, 0, None],
    "GREATEST(i, j)": [3, 7, 5, 2],
    "CAST(f AS INT)": [2, -2, 2, None],
    "CAST(f AS VARCHAR)": ["2.5", "-2.5", "2.675", None],
    "CAST(f AS DECIMAL(10, 0))": [Decimal(3), Decimal(-3), Decimal(3), None],
    "CAST(f AS DECIMAL(10, 2))": [Decimal("2.5"), Decimal("-2.5"), Decimal("2.68"), None],
    "CAST('2.5' AS DECIMAL(10, 0))": [Decimal(3)] * 4,
    "CAST(i AS FLOAT) / 3": [-7 / 3, 7 / 3, 0.0, None],
    "SIGN(i)": [-1.0, 1.0, 0.0, None],
    "LEAST(i, j)": [-7, -3, 0, 2],
    "i % -3": [-1, 1, 0, None],
    "i BETWEEN -7 AND 0": [True, False, True, None],
    "CAST(b AS INT)": [1, 0, None, 1],
    "NULLIF(i, 7)": [-7, None, 0, None],
    "COALESCE(i, j)": [-7, 7, 0, 2],
    "u - 3": [-2, -1, 0, None],
    "tiny * 3": [300, -300, 0, None],
    # truth
    "b IS TRUE": [True, False, False, True],
    "b IS NOT TRUE": [False, True, True, False],
    "b IS FALSE": [False, True, False, False],
    "b IS NOT FALSE": [True, False, True, True],
    "b IS UNKNOWN": [False, False, True, False],
    "(i > 0) IS TRUE": [False, True, False, False],
    "i > 0 AND b": [False, False, False, None],
    "i IS DISTINCT FROM j": [True, True, True, True],
    "i IN (7, NULL)": [None, True, None, None],
    "CASE WHEN i > 0 THEN 'more' WHEN i < 0 THEN 'less' END": ["less", "more", None, None],
    "s = 'a.b'": [False, False, False, None],
    # precedence: IS binds less than a comparison, and more than NOT, AND and OR
    "i IS NOT DISTINCT FROM -7 AND b": [True, False, False, False],
    "i IS DISTINCT FROM j AND i IS NOT NULL OR FALSE": [True, True, True, False],
    "i = j IS NULL": [False, False, False, True],
    "i IS NULL = b": [False, True, None, True],
    "NOT i IS NULL AND b": [True, False, None, False],
    "i < 0 IS NOT DISTINCT FROM b": [True, True, False, False],
    "j + 1 IN (4, 6) OR b AND i > 0": [True, False, True, None],
    "s LIKE '%-b_' ESCAPE '!' AND NOT b": [False, True, False, False],
    "s NOT LIKE '%!_%' ESCAPE '!'": [True, True, True, None],
    "NULLIF('AB', COALESCE('', s))": ["AB"] * 4,
    # texts
    "LENGTH(s) - 10": [-5, -4, -10, None],
    "POSITION('l' IN s)": [3, 0, 0, None],
    "POSITION('l' IN s) - 1": [2, -1, -1, None],
    "POSITION('' IN s)": [1, 1, 1, None],
    "SUBSTRING(s, 2)": ["éllo", " a-b ", "", None],
    "SUBSTRING(s FROM 2 FOR 3)": ["éll", " a-", "", None],
    "SUBSTRING(s, POSITION('-' IN s) + 1)": ["héllo", "b ", "", None],
    "SUBSTRING(s, j - 4, 3)": ["h", "", "", None],
    "OCTET_LENGTH(s) - 10": [-4, -4, -10, None],
    "LEFT(s, -1)": ["", "", "", None],
    "RIGHT(s, 0)": ["", "", "", None],
    "LPAD(s, 7, '*')": ["**héllo", "*  a-b ", "*******", None],
    "REPLACE(s, 'l', 'L')": ["héLLo", "  a-b ", "", None],
    "REGEXP_REPLACE(s, 'l+', 'L')": ["héLo", "  a-b ", "", None],
    "SPLIT_PART(s, 'l', 1)": ["hé", "  a-b ", "", None],
    "CONCAT(s, 'x')": ["héllox", "  a-b x", "x", None],
    "s ILIKE 'H%'": [True, False, False, None],
    "RIGHT(s, 2)": ["lo", "b ", "", None],
    "UPPER(TRIM(s)) || '!'": ["HÉLLO!", "A-B!", "!", None],
    "LOWER(UPPER(s))": ["héllo", "  a-b ", "", None],
    "REGEXP_LIKE(s, '^\\w')": [True, False, False, None],
    "s LIKE 'h_l%'": [True, False, False, None],
    # lists
    "l[0]": [1, None, None, 3],
    "l[1]": [2, None, None, None],
    "ARRAY_CONTAINS(l, 1)": [True, False, None, False],
    "ARRAY_LENGTH(l) - 2": [0, -2, None, -1],
    # times
    "d > TIMESTAMP '2026-03-01 12:00:30'": [False, True, None, False],
    "d > TIMESTAMP '2026-03-01 13:00:30+01:00'": [False, True, None, False],
    "CAST(t AS TIMESTAMP) = DATE_TRUNC('second', d)": [True, True, None, True],
    "d - INTERVAL '1' HOUR": [at(0, 5, hour=11), at(50, 10, 500_000, 11), None, LAST - SECOND * 3600],
    "d - ts": [SECOND * 5, SECOND * 3010.5, None, SECOND * -5_140_801],
    "DATE_TRUNC('minute', d)": [at(0), at(50), None, datetime(2025, 12, 31, 23, 59, tzinfo=UTC)],
    "DATE_TRUNC('day', d)": [at(0, hour=0), at(0, hour=0), None, datetime(2025, 12, 31, tzinfo=UTC)],
    "DATE_TRUNC('week', d)": [datetime(2026, 2, 23, tzinfo=UTC)] * 2 + [None, datetime(2025, 12, 29, tzinfo=UTC)],
    "EXTRACT(DOW FROM d)": [0, 0, None, 3],
    "EXTRACT(ISODOW FROM d)": [7, 7, None, 3],
    "DAYOFWEEK(d)": [1, 1, None, 4],
    "EXTRACT(EPOCH FROM d)": [1772366405.0, 1772369410.5, None, 1767225599.0],
    "EXTRACT(SECOND FROM d)": [5.0, 10.5, None, 59.0],
    "SECOND(d) * 100": [500, 1000, None, 5900],
    "EXTRACT(DAY FROM d) * 10": [10, 10, None, 310],
    "EXTRACT(DOY FROM d)": [60, 60, None, 365],
    "EXTRACT(WEEK FROM d)": [9, 9, None, 1],
    "HOUR(d) * 100": [1200, 1200, None, 2300],
    "YEAR(d)": [2026, 2026, None, 2025],
    "CAST(d AS STRING)": ["2026-03-01 12:00:05", "2026-03-01 12:50:10.5", None, "2025-12-31 23:59:59"],
    "d < NOW()": [True, True, None, True],
    "DATE_TRUNC('month', d)": [datetime(2026, 3, 1, tzinfo=UTC)] * 2 + [None, datetime(2025, 12, 1, tzinfo=UTC)],
    "CAST(d AS DATE) + INTERVAL '1' DAY > DATE '2026-03-01'": [True, True, None, False],
    "CAST(d AS DATE)": [date(2026, 3, 1), date(2026, 3, 1), None, date(2025, 12, 31)],
    # names
    '"Name.of"': ["x", "y", "z", None],
    "\"Name.of\" || '.'": ["x.", "y.", "z.", None],
}


def query(*expressions: str) -> str:
    """One query of them all: an aggregate of one row is what the row has."""
    chosen = ", ".join(f"LAST({expression}) AS v{number}" for number, expression in enumerate(expressions))
    return f"SELECT row, {chosen} FROM TUMBLE(numbers, DESCRIPTOR(ts), INTERVAL '1' DAY) GROUP BY row"


def same(values: list[Any], expected: list[Any]) -> bool:
    """Numbers of floating point may differ in their last digits; types must not be others."""
    return len(values) == len(expected) and all(
        type(value) is type(other) and math.isclose(value, other, rel_tol=1e-12)
        if isinstance(other, float)
        else value == other
        for value, other in zip(values, expected, strict=True)
    )
