"""Streams as a source and a sink of Spark: ``format("eventide")``."""
