"""Plans: how pipelines are said, checked and explained."""

from eventide.plan.builder import Stream, ingestion_time, stream
from eventide.plan.pipeline import Pipeline
from eventide.plan.plan import IngestionTime, Plan

__all__ = ["IngestionTime", "Pipeline", "Plan", "Stream", "ingestion_time", "stream"]
