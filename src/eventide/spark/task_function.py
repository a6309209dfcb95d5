"""Functions that Spark runs in its tasks, with a clear error where a worker lacks Eventide."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pyspark import cloudpickle


def task_function(function: Callable[[Iterator[Any]], Iterator[Any]]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return the function as Spark ships it: a worker imports Eventide when it runs, not when it is unpickled.

    What is returned is pickled by value, so it refers to nothing of Eventide itself. The project ``eventide`` on PyPI
    is another one with the same import name: the error names the module that the worker has found.
    """
    packed: bytes = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]

    def run(batches: Any) -> Any:
        import pickle

        try:
            unpacked = pickle.loads(packed)
        except ImportError as cause:
            if (cause.name or "").partition(".")[0] not in ("eventide", "pyspark_eventide"):
                raise
            import importlib.util

            spec = importlib.util.find_spec("eventide")
            origin = None if spec is None else spec.origin or ", ".join(spec.submodule_search_locations or ())
            found = "there is no module eventide" if spec is None else f"the module at {origin} is another project"
            raise ImportError(
                f"The workers cannot import Eventide ({cause.name}): {found}. Install pyspark-eventide on them."
            ) from cause
        return unpacked(batches)

    return run
