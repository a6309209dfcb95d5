"""The control stream: commands to a running query, in band and exactly once.

A command is a small file in a directory beside the checkpoint, which the query reads as one more source. So a command
belongs to a batch like any row does: it is logged, and a replay meets it again at the same place.
"""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventide.spark import page
from eventide.spark.stage import Stage
from eventide.spark.ticks import for_all_buckets
from eventide.time import instant
from eventide.watermarks.rules import Noted

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession


class Control:
    """Commands to the query of a checkpoint, running or not: one that is stopped obeys when it starts again.

    >>> control = Control("/tmp/checkpoints/revenue")
    >>> control.place
    '/tmp/checkpoints/revenue/eventide/control'
    """

    def __init__(self, checkpoint: str | Path, spark: SparkSession | None = None) -> None:
        self.place = f"{os.fspath(checkpoint).rstrip('/')}/eventide/control"
        self._spark = spark

    def drain(self) -> None:
        """End the stream: every open window fires and closes."""
        self._send(do="drain")

    def skip_gap(self, origin: object = None, *, up_to: int | None = None) -> None:
        """Do not wait any longer for sequence numbers of an origin that are missing (all up to ``up_to``)."""
        self._send(do="skip", origin=_name(origin), up_to=up_to)

    def retire(self, origin: object) -> None:
        """Do not wait any longer for an origin that will not come back."""
        self._send(do="retire", origin=_name(origin))

    def note(self, watermark: int | str | datetime) -> None:
        """Raise the watermark: no event before it is expected any more."""
        time_ = watermark if isinstance(watermark, int) else instant(watermark)
        self._send(do="note", watermark=time_)

    def lower_watermark(self, watermark: int | str | datetime) -> None:
        """Lower the watermark of a stopped query. ``eventide repair`` checks first that its state allows it."""
        time_ = watermark if isinstance(watermark, int) else instant(watermark)
        self._send(do="lower_watermark", watermark=time_)

    def open(self) -> None:
        """Make the place, which the source wants to find when the query starts."""
        if (local := self._local()) is not None:
            local.mkdir(parents=True, exist_ok=True)
        elif self._spark is not None:
            self._spark.createDataFrame([], "value string").write.mode("append").text(self.place)

    def _send(self, **command: Any) -> None:
        # The time stands first, so that commands of one batch are obeyed in the order in which they were given.
        line = json.dumps({"sent": time.time_ns(), **command})
        if (local := self._local()) is not None:
            local.mkdir(parents=True, exist_ok=True)
            unseen = local / f".{uuid.uuid4().hex}"
            unseen.write_text(line + "\n", encoding="utf-8")
            unseen.rename(local / f"{uuid.uuid4().hex}.json")
        else:
            from pyspark.sql import SparkSession

            spark = self._spark or SparkSession.builder.getOrCreate()
            spark.createDataFrame([(line,)], "value string").coalesce(1).write.mode("append").text(self.place)

    def _local(self) -> Path | None:
        return local_path(self.place, self._spark)


def local_path(address: str, spark: SparkSession | None) -> Path | None:
    """The path on this machine's disk, or None. A path without a scheme is on Spark's default file system."""
    if on_disk(address) is None:
        return None
    if "://" not in address and not address.startswith("file:") and spark is not None:
        java, context = spark.sparkContext._jvm, spark.sparkContext._jsc
        assert java is not None
        files = java.org.apache.hadoop.fs.FileSystem.getDefaultUri(context.hadoopConfiguration())
        if files.getScheme() != "file":
            return None
    return Path(str(on_disk(address)))


def on_disk(address: str) -> str | None:
    """The path of a file of this machine; None for one that lies elsewhere. As Spark writes it: nothing is escaped.

    >>> on_disk("file:///tmp/a%20b#c"), on_disk("/tmp/x"), on_disk("s3a://shop/x")
    ('/tmp/a%20b#c', '/tmp/x', None)
    """
    if address.startswith("file:"):
        return "/" + address.removeprefix("file:").lstrip("/")
    return None if re.match(r"[A-Za-z][\w+.-]*://", address) else address


def commands(spark: SparkSession, place: str, stage: Stage) -> DataFrame:
    """The commands of a control stream, for every bucket."""
    from pyspark.sql import functions as F  # noqa: N812

    lines = spark.readStream.format("text").load(place)
    return lines.select(*for_all_buckets(stage, page.CONTROL, F.col("value")))


def marks_of(spark: SparkSession, stage: Stage) -> list[DataFrame]:
    """What the writers of streams have noted, for every bucket: one source for each stream that a watermark follows."""
    from pyspark.sql import functions as F  # noqa: N812

    rules = [one.watermark.rule for one in stage.plan.edges if isinstance(one.watermark.rule, Noted)]
    found = []
    for rule in {rule.identity: rule for rule in rules}.values():
        source = spark.readStream.format("eventide").option("only", "marks").option("identity", rule.identity)
        source = source if rule.token is None else source.option("token", rule.token)
        found.append(source.load(rule.address).select(*for_all_buckets(stage, page.CONTROL, F.col("value"))))
    return found


def _name(origin: object) -> str | None:
    return None if origin is None else str(origin)
