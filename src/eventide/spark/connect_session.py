"""Spark Connect: how to recognize a session of it, and what is rejected because it cannot work there.

A client of Spark Connect has no Java objects. Its ``foreachBatch`` runs in a Python process of the server, so the
query and its state are there (``spark/connect_query.py``).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from eventide.errors import PlanError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGE = "pyspark.sql.connect."
_NOT_FOUND = "PATH_NOT_FOUND"


def is_connect(*values: object) -> bool:
    """Return whether a session or a DataFrame, or one in lists and dicts of them, is of Spark Connect.

    >>> is_connect("rows"), is_connect({"orders": ["rows"]})
    (False, False)
    """
    for value in values:
        if isinstance(value, Mapping):
            if is_connect(*value.values()):
                return True
        elif isinstance(value, list | tuple):
            if is_connect(*value):
                return True
        elif type(value).__module__.startswith(_PACKAGE):
            return True
    return False


def reject_spark_connect(what: str, instead: str, *values: object) -> None:
    """Reject what does not work with sessions or DataFrames of Spark Connect. ``instead`` is what to do.

    >>> reject_spark_connect("rescale()", "Leave out spark=.", "no session")
    """
    if is_connect(*values):
        raise PlanError(f"{what} does not work over Spark Connect: {instead}")


def check_shared(spark: SparkSession, checkpoint: Path) -> None:
    """Reject a checkpoint that the server of a Spark Connect session does not see at the same path.

    Commands, metrics and the record of the query are files of the checkpoint. This process and the server use them.
    """
    from pyspark.errors import AnalysisException

    probe = checkpoint / "eventide" / f"probe.{uuid.uuid4().hex}"
    probe.parent.mkdir(parents=True, exist_ok=True)
    probe.write_bytes(b"probe\n")
    try:
        columns = spark.read.text(f"file:{probe}").columns  # not a URI: Spark unescapes nothing
    except AnalysisException as cause:
        if cause.getCondition() != _NOT_FOUND:
            raise
        columns = []
    finally:
        probe.unlink()
    if not columns:
        raise PlanError(
            f"The checkpoint {str(checkpoint)!r} is not at the same path on the server of this Spark Connect session: "
            "name a directory that this machine and the server share."
        )


def remote_checkpoint(checkpoint: str) -> PlanError:
    """Return the error of a checkpoint on a file system of Hadoop, which a client cannot access."""
    return PlanError(
        f"The checkpoint {checkpoint!r} is on a file system of Hadoop, which a client of Spark Connect cannot access: "
        "name a directory that this machine and the server share."
    )
