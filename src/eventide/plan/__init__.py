"""Plans: how pipelines are said, checked and explained."""

from eventide.plan.builder import Stream, ingestion_time, stream
from eventide.plan.combining import cogroup, union, window_join
from eventide.plan.pipeline import Pipeline
from eventide.plan.plan import IngestionTime, Plan
from eventide.plan.process_plan import ProcessPlan
from eventide.plan.processing import process

__all__ = [
    "IngestionTime",
    "Pipeline",
    "Plan",
    "ProcessPlan",
    "Stream",
    "cogroup",
    "ingestion_time",
    "process",
    "stream",
    "union",
    "window_join",
]
