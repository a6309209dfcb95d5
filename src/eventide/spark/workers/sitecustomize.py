"""Lets Spark's Python processes on this machine import the installed pyspark in place of a zip of it.

Spark puts the zip first on their path. What is in a zip is compiled anew by every process: half a second, for the same
files that lie beside it, compiled. A ``sitecustomize`` of the user's own, which this one hides, runs as well.

And it lets them be forked from a process that has imported all that already: ``pyspark_eventide.zygote``.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec


def without_zips(path: list[str]) -> list[str]:
    """A path without the zips that stand in an installed pyspark, if that can be found on it.

    >>> without_zips(["/site/pyspark/python/lib/pyspark.zip", "/mine.zip", "/site"])
    ['/mine.zip', '/site']
    >>> without_zips(["/opt/spark/python/lib/pyspark.zip", "/site"])
    ['/opt/spark/python/lib/pyspark.zip', '/site']
    """
    zips = os.path.join("pyspark", "python", "lib")  # noqa: PTH118  # pathlib takes 15 ms to import, here in all processes
    installed = {os.path.join(entry, zips) for entry in path if not entry.endswith(".zip")}  # noqa: PTH118
    return [entry for entry in path if not (entry.endswith(".zip") and os.path.dirname(entry) in installed)]  # noqa: PTH120


def prepare(command: list[str]) -> None:
    """Hand over to the process that has everything imported, if there is one; else begin as usual."""
    here = os.path.dirname(__file__)  # noqa: PTH120
    hidden = PathFinder.find_spec("sitecustomize", [entry for entry in sys.path if entry != here])
    if command[1:2] == ["-m"] and PathFinder.find_spec("pyspark_eventide") is not None:
        from pyspark_eventide.handover import hand_over, hush

        # What a user's one does, it does in this process only; that of a Linux is a part of Python.
        if hidden is None or os.path.dirname(str(hidden.origin)) == os.path.dirname(os.__file__):  # noqa: PTH120
            hand_over(command, sys.path)
        hush(command[2])
    if hidden is not None and hidden.loader is not None:
        hidden.loader.exec_module(module_from_spec(hidden))


if __name__ == "sitecustomize":
    sys.path[:] = without_zips(sys.path)
    prepare(sys.orig_argv)
