"""The data source ``eventide``, which Spark finds by the name of this package.

Spark imports packages whose names begin with ``pyspark_`` in every session. So nothing here imports Eventide before it
is needed.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "DefaultSource":
        from pyspark_eventide.source import EventideSource

        return EventideSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
