"""Plans: how pipelines are said, checked and explained."""

from eventide.plan.builder import Stream, ingestion_time, stream
from eventide.plan.combining import cogroup, union, window_join
from eventide.plan.join_plan import JoinPlan
from eventide.plan.joining import join
from eventide.plan.pipeline import Pipeline
from eventide.plan.plan import IngestionTime, Plan

__all__ = [
    "IngestionTime",
    "JoinPlan",
    "Pipeline",
    "Plan",
    "Stream",
    "cogroup",
    "ingestion_time",
    "join",
    "stream",
    "union",
    "window_join",
]
