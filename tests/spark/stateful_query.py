"""A small streaming query with state, as a function and as a program that makes its own session."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def counted(spark: SparkSession, place: Path, *, files: int) -> list[tuple[int, int]]:
    """How many rows of each key were seen after each batch. A file is a batch, with three rows of two keys each."""
    import pandas as pd
    from pyspark.sql.streaming import StatefulProcessor

    class Count(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._seen = handle.getValueState("seen", "n bigint")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
            before = self._seen.get() if self._seen.exists() else (0,)
            n = before[0] + sum(len(part) for part in rows)
            self._seen.update((n,))
            yield pd.DataFrame({"key": [key[0]], "n": [n]})

        def close(self) -> None:
            pass

    source = place / "source"
    source.mkdir()
    for number in range(files):
        lines = [json.dumps({"key": key}) for key in (0, 1) for _ in range(3)]
        (source / f"{number}.json").write_text("\n".join(lines))
    rows = spark.readStream.schema("key int").option("maxFilesPerTrigger", 1).json(str(source))
    counts = rows.groupBy("key").transformWithStateInPandas(Count(), "key int, n bigint", "Append", "None")
    passed = counts.mapInArrow(lambda batches: batches, counts.schema)
    sink, checkpoint = str(place / "sink"), str(place / "checkpoint")
    writer = passed.writeStream.format("parquet").option("checkpointLocation", checkpoint).trigger(availableNow=True)
    writer.start(sink).awaitTermination()
    return sorted((row.key, row.n) for row in spark.read.parquet(sink).collect())


if __name__ == "__main__":
    from eventide.spark.session import spark_session

    print(counted(spark_session(cores=2), Path(sys.argv[1]), files=2))
