"""Streaming SQL: pipelines from queries."""

from eventide.streamsql.api import SqlPipeline, sql

__all__ = ["SqlPipeline", "sql"]
