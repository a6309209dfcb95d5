"""The job of docs/howto/kafka.md with a broker: ``python -m tests.spark.kafka_job SERVERS JARS PLACE``.

It reads a topic of three partitions: one is two hours ahead of another, and the third falls silent. The query fails
once, after its panes are in Kafka and before Spark has written down that the batch is done; is started again; is
stopped, and started again with more messages, one of them late.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import eventide as ev

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "kafka.md"
QUICK = {  # what Java compiles best pays off after minutes
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
}
SCHEMA = "ts timestamp, shop string, price double"
PIPELINE = (
    ev.stream(
        time="ts",
        key="shop",
        watermark=ev.bounded_delay(
            "5 seconds",
            origin="partition",
            idle_timeout="1 second",
            expect_origins=3,
            origins_timeout="1 minute",
        ),
    )
    .window(ev.tumbling("1 minute"))
    .agg(orders=ev.count(), total=ev.sum("price"))
)

Row = tuple[str, str, float, int]  # ts, shop, price, partition


def _rows(hour: int, minutes: range, partition: int) -> list[Row]:
    """A row every ten seconds, of two shops in turn."""
    clocks = [f"2026-03-01T{hour}:{minute:02}:{second:02}Z" for minute in minutes for second in range(5, 60, 10)]
    return [(at, ("kiel", "rom")[n % 2], float(n + 1), partition) for n, at in enumerate(clocks)]


AHEAD, BEHIND = _rows(12, range(3), 0), _rows(10, range(3), 1)
SILENT: Row = ("2026-03-01T10:00:02Z", "kiel", 100.0, 2)
LATE: Row = ("2026-03-01T10:00:30Z", "rom", 1000.0, 1)
CAUGHT_UP = [*_rows(12, range(3, 4), 0), *_rows(12, range(3, 4), 1), ("2026-03-01T12:04:00Z", "rom", 200.0, 2)]
FIRST: list[Row] = [SILENT, *AHEAD, *BEHIND]
THEN: list[Row] = [LATE, *CAUGHT_UP]
AT_ONCE = 6  # rows of each partition in a batch: panes come while both still send


class Fails:
    """A sink that fails once, after the first panes were written."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.twice = 0  # panes of the batch that will be written again

    def open(self, schema: Any, about: Any) -> None:
        self._inner.open(schema, about)

    def write(self, batch: Any, batch_id: int, about: Any) -> None:
        self._inner.write(batch, batch_id, about)
        panes = batch.arrow.num_rows
        if panes and not self.twice:
            self.twice = panes
            raise RuntimeError("before Spark's commit")

    def close(self) -> None:
        self._inner.close()


def page_code(servers: str, jars: str) -> str:
    """The page's code that reads and writes topics, with this broker and the jars that are at hand."""
    changes = {
        r'"spark\.jars\.packages": "[^"]+"': f'"spark.jars": {jars!r}, **MORE',
        r"maxOffsetsPerTrigger=1_000_000": f"maxOffsetsPerTrigger={2 * AT_ONCE + 1}",
    }
    blocks = [block for block in _blocks() if "without_repeats" not in block]
    return _changed("\n".join(blocks), {**changes, r'"broker:9092"': repr(servers)})


def reader_code(servers: str, place: Path) -> str:
    """The page's code that reads panes without repeats."""
    blocks = [block for block in _blocks() if "without_repeats" in block]
    places = {"checkpoints/reader": f"{place}/reader", "/data/panes": f"{place}/panes"}
    return _changed("\n".join(blocks), {**places, r'"broker:9092"': repr(servers)})


def _blocks() -> list[str]:
    blocks = re.findall(r"```py\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return [block for block in blocks if '"broker:9092"' in block]


def _changed(code: str, changes: dict[str, str]) -> str:
    for pattern, text in changes.items():
        code, times = re.subn(pattern, text.replace("\\", r"\\"), code)
        assert times, f"the page no longer has {pattern}"
    return code


def produce(spark: Any, servers: str, rows: Sequence[Row], also: Sequence[str] = ()) -> None:
    """Messages for partitions that are named, in their order."""
    values = [(json.dumps({"ts": at, "shop": shop, "price": price}), n) for at, shop, price, n in rows]
    values += [(text, 0) for text in also]
    frame = spark.createDataFrame(values, "value string, partition int").coalesce(1)
    frame.write.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", "orders").save()


def main(servers: str, jars: str, place: Path) -> None:
    more = {
        "spark.local.dir": str(place / "local"),
        **QUICK,
    }
    names: dict[str, Any] = {"MORE": more}
    exec(page_code(servers, jars), names)
    spark, orders = names["spark"], names["orders"]
    panes, late = Fails(names["panes"]), names["late"]
    observed: list[Any] = []

    def run(**options: Any) -> Any:
        place_ = str(place / "checkpoint")
        return PIPELINE.run(orders, sink=panes, late=late, checkpoint=place_, on_batch=observed.append, **options)

    produce(spark, servers, FIRST)
    try:
        run(interval="1 second").await_termination(120)
    except Exception as cause:
        assert "before Spark's commit" in str(cause), cause
    assert panes.twice, "the query has not failed"
    run(available_now=True)
    produce(spark, servers, THEN, also=["this is not JSON"])
    run(drain=True)
    idle = next(line.idle_origins for line in observed if line.panes)  # when the first panes came
    exec(reader_code(servers, place), names)
    names["reader"].processAllAvailable()
    names["reader"].stop()
    read = [row.value for row in spark.read.text(str(place / "panes")).collect()]
    report = {"twice": panes.twice, "idle": idle, "rows": sum(line.rows for line in observed), "read": read}
    print(json.dumps(report))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
