"""Lets Spark's Python processes on this machine import the installed pyspark in place of a zip of it.

Spark puts the zip first on their path. What is in a zip is compiled anew by every process: half a second, for the same
files that lie beside it, compiled. A ``sitecustomize`` of the user's own, which this one hides, runs as well.

And it quiets the process that tells Spark of a query's state, which prints that it begins, for each query.
"""

from __future__ import annotations

import builtins
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path


def without_zips(path: list[str]) -> list[str]:
    """A path without the zips that stand in an installed pyspark, if that can be found on it.

    >>> without_zips(["/site/pyspark/python/lib/pyspark.zip", "/mine.zip", "/site"])
    ['/mine.zip', '/site']
    >>> without_zips(["/opt/spark/python/lib/pyspark.zip", "/site"])
    ['/opt/spark/python/lib/pyspark.zip', '/site']
    """
    installed = tuple(str(Path(entry, "pyspark", "python", "lib")) for entry in path if not entry.endswith(".zip"))
    return [entry for entry in path if not (entry.endswith(".zip") and str(Path(entry).parent) in installed)]


_PRINTS = "pyspark.sql.streaming.transform_with_state_driver_worker"


if __name__ == "sitecustomize":
    sys.path[:] = without_zips(sys.path)
    if _PRINTS in sys.orig_argv:
        builtins.print = lambda *said, **how: None
    here = str(Path(__file__).parent)
    hidden = PathFinder.find_spec("sitecustomize", [entry for entry in sys.path if entry != here])
    if hidden is not None and hidden.loader is not None:
        hidden.loader.exec_module(module_from_spec(hidden))
