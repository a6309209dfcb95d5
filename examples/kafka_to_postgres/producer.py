"""Orders of the last half hour, in six waves of five minutes, as they arrive at three partitions of a topic.

Partition 2 is offline in waves 2 and 3 and sends its orders in wave 4. Some orders arrive a wave late, and correct a
result. Some arrive in the last wave, and are too late. Some messages are invalid.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from random import Random

import polars as pl
from pyspark.sql import SparkSession

WAVES = 6
WAVE = timedelta(minutes=5)
OFFLINE = {2: (2, 3)}  # waves in which a partition is not connected
RECONNECTED = 4
SHOPS = {"bern": 0, "kiel": 0, "oslo": 1, "riga": 1, "rome": 2, "york": 2}  # shop: partition
MESSAGE = pl.Schema({"wave": pl.Int64, "partition": pl.Int32, "kind": pl.String, "value": pl.String})


def generate(orders: int, seed: int, end: datetime) -> pl.DataFrame:
    """Return the messages of each wave. ``kind`` says what becomes of a message; only the check reads it."""
    random = Random(seed)
    messages = []
    for number in range(orders):
        shop, partition = random.choice(list(SHOPS.items()))
        wave, kind = random.randrange(WAVES), "window"
        ts = end - (WAVES - wave - random.random()) * WAVE
        arrival = wave
        chance = random.random()
        if chance < 0.05:
            arrival = min(wave + 1, WAVES - 1)  # late: corrects the result
        elif chance < 0.08 and wave < 2:
            arrival, kind = WAVES - 1, "late"  # too late
        elif chance > 0.99:
            ts, kind = ts + timedelta(days=300), "dead"  # a wrong clock
        if arrival in OFFLINE.get(partition, ()):
            arrival = RECONNECTED
        order = {
            "order_id": f"{seed}-{number}",
            "shop": shop,
            "cents": random.randint(100, 9_999),
            "ts": ts.isoformat(),
        }
        messages.append((arrival, partition, kind, json.dumps(order)))
    messages += [(wave, 0, "dead", f"ping {wave}") for wave in range(WAVES)]  # not an order, not even JSON
    return pl.DataFrame(messages, schema=MESSAGE, orient="row").sort("wave", maintain_order=True)


def send(spark: SparkSession, messages: pl.DataFrame, *, kafka: str, topic: str) -> None:
    """Write messages to their partitions, in their order."""
    rows = spark.createDataFrame(messages.select("value", "partition").rows(), "value string, partition int")
    writer = rows.coalesce(1).write.format("kafka").option("kafka.bootstrap.servers", kafka)
    writer.option("topic", topic).save()
