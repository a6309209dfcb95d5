"""The Spark host: pipelines on Structured Streaming."""

from eventide.spark.running import run
from eventide.spark.scanning import scan_parquet
from eventide.spark.session import configure, session

__all__ = ["configure", "run", "scan_parquet", "session"]
