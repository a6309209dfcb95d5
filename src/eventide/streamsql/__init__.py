"""Streaming SQL: the same pipelines, said in SQL."""

from eventide.errors import sql_tables as table_errors

try:
    import sqlglot  # noqa: F401
except ImportError:  # pragma: no cover - the extra is installed where tests run
    raise table_errors.no_extra() from None

from eventide.streamsql.running import SqlPipeline, sql, sql_pipeline

__all__ = ["SqlPipeline", "sql", "sql_pipeline"]
