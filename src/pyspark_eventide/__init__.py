"""What Spark itself looks for by name: the data source ``eventide``, and the process that forks Python workers.

Spark finds data sources in packages whose names begin with ``pyspark_``, and imports those in every session. So nothing
here imports Eventide before it is needed; the process that forks workers must not import Polars at all.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "DefaultSource":
        from pyspark_eventide.source import EventideSource

        return EventideSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
