"""The Spark host: pipelines on Structured Streaming."""
