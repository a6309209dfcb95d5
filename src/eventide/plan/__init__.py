"""Plans: how pipelines are said, checked and explained."""

from eventide.plan.builder import Stream, ingestion_time, stream
from eventide.plan.combining import cogroup, union, window_join
from eventide.plan.join_plan import JoinPlan
from eventide.plan.joining import join
from eventide.plan.pipeline import Pipeline
from eventide.plan.plan import IngestionTime, Plan
from eventide.plan.process_plan import ProcessPlan
from eventide.plan.processing import process

__all__ = [
    "IngestionTime",
    "JoinPlan",
    "Pipeline",
    "Plan",
    "ProcessPlan",
    "Stream",
    "cogroup",
    "ingestion_time",
    "join",
    "process",
    "stream",
    "union",
    "window_join",
]
