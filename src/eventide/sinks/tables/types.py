"""Spark's types in SQL, in one table.

SQLite has four types. What it lacks is text: timestamps and dates are ISO-8601, which sorts rightly; decimals have all
digits of their scale, which is exact, but they must be cast before they are compared; ``NaN`` is the text ``'NaN'``,
which sorts above all numbers, as it does in Spark and in PostgreSQL. (SQLite itself would make it null.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from eventide.errors import sinks as errors
from eventide.sinks.flat import Field

if TYPE_CHECKING:
    from pyspark.sql.types import DecimalType

Dialect: TypeAlias = Literal["postgres", "sqlite"]


class Sql(NamedTuple):
    """A type's name, and some value of it, which stands for null where nulls must be equal."""

    name: str
    zero: str


@dataclass(frozen=True)
class _Pair:
    postgres: Sql
    sqlite: Sql


_INTEGER, _REAL, _TEXT = Sql("INTEGER", "0"), Sql("REAL", "0"), Sql("TEXT", "''")
_JSON = _Pair(Sql("jsonb", "'null'::jsonb"), _TEXT)

_TYPES = {
    "boolean": _Pair(Sql("boolean", "false"), _INTEGER),
    "byte": _Pair(Sql("smallint", "0"), _INTEGER),
    "short": _Pair(Sql("smallint", "0"), _INTEGER),
    "integer": _Pair(Sql("integer", "0"), _INTEGER),
    "long": _Pair(Sql("bigint", "0"), _INTEGER),
    "float": _Pair(Sql("real", "0"), _REAL),
    "double": _Pair(Sql("double precision", "0"), _REAL),
    "decimal": _Pair(Sql("numeric({precision},{scale})", "0"), _TEXT),
    "string": _Pair(Sql("text", "''"), _TEXT),
    "char": _Pair(Sql("text", "''"), _TEXT),
    "varchar": _Pair(Sql("text", "''"), _TEXT),
    "void": _Pair(Sql("text", "''"), _TEXT),
    "binary": _Pair(Sql("bytea", "''::bytea"), Sql("BLOB", "x''")),
    "date": _Pair(Sql("date", "'epoch'::date"), _TEXT),
    "time": _Pair(Sql("time without time zone", "'00:00'::time"), _TEXT),
    "timestamp": _Pair(Sql("timestamp with time zone", "'epoch'::timestamptz"), _TEXT),
    "timestamp_ntz": _Pair(Sql("timestamp without time zone", "'epoch'::timestamp"), _TEXT),
    "daytimeinterval": _Pair(Sql("bigint", "0"), _INTEGER),  # in microseconds
    "array": _JSON,
    "map": _JSON,
    "struct": _JSON,
    "variant": _JSON,
}


def sql_type(field: Field, dialect: Dialect) -> Sql:
    """The type of a column, as the database itself would name it.

    >>> from pyspark.sql.types import DecimalType, TimestampType
    >>> sql_type(Field("price", ("price",), DecimalType(10, 2)), "postgres").name
    'numeric(10,2)'
    >>> sql_type(Field("at", ("pane", "at"), TimestampType()), "sqlite").name
    'TEXT'
    """
    pair = _TYPES.get(field.kind)
    if pair is None:
        raise errors.no_sql_type(field.name, field.dtype.simpleString())
    sql = pair.postgres if dialect == "postgres" else pair.sqlite
    if field.kind == "decimal":
        dtype: DecimalType = field.dtype  # type: ignore[assignment]
        return sql._replace(name=sql.name.format(precision=dtype.precision, scale=dtype.scale))
    return sql
