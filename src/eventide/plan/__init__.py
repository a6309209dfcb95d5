"""Plans: how pipelines are built, checked and explained."""

from eventide.plan.interval_join import join
from eventide.plan.join_plan import JoinPlan
from eventide.plan.multi_input import cogroup, process, union, window_join
from eventide.plan.pipeline import Pipeline
from eventide.plan.plan import IngestionTime
from eventide.plan.process_plan import ProcessPlan
from eventide.plan.streams import Stream, ingestion_time, stream
from eventide.plan.window_plan import WindowPlan
from eventide.plan.windowed_streams import WindowedStream

__all__ = [
    "IngestionTime",
    "JoinPlan",
    "Pipeline",
    "ProcessPlan",
    "Stream",
    "WindowPlan",
    "WindowedStream",
    "cogroup",
    "ingestion_time",
    "join",
    "process",
    "stream",
    "union",
    "window_join",
]
