"""Streaming SQL: the same pipelines, said in SQL."""

from eventide.streamsql.running import SqlPipeline, sql, sql_pipeline

__all__ = ["SqlPipeline", "sql", "sql_pipeline"]
