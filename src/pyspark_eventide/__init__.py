"""Where Spark finds ``format("eventide")``: it looks for data sources in packages whose names begin with pyspark_."""

from eventide.marks.spark.source import EventideSource as DefaultSource

__all__ = ["DefaultSource"]
