"""Plans: how pipelines are said, checked and explained."""

from eventide.plan.builder import Stream, ingestion_time, stream
from eventide.plan.combining import cogroup, union, window_join
from eventide.plan.pipeline import Pipeline
from eventide.plan.plan import IngestionTime, Plan

__all__ = [
    "IngestionTime",
    "Pipeline",
    "Plan",
    "Stream",
    "cogroup",
    "ingestion_time",
    "stream",
    "union",
    "window_join",
]
