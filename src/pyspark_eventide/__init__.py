"""The data source ``eventide``. Spark finds it by the name of this package.

Spark imports packages whose names begin with ``pyspark_`` in every session, so this one imports Eventide only on use.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "DefaultSource":
        from pyspark_eventide.source import EventideSource

        return EventideSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
