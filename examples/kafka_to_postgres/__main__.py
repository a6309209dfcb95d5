"""Run the whole example: start Kafka and PostgreSQL, send orders, run the job, and check that no order is lost.

    python -m kafka_to_postgres                       # in the directory that contains this folder
    python -m kafka_to_postgres --kafka broker:9092 --postgres postgresql://me@db/test

With --kafka, the broker needs a new topic `orders` with three partitions. With --postgres, the database must not
contain tables of an earlier run.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg

from . import job, producer, servers

TOTALS = """
SELECT (SELECT sum(orders)::bigint FROM revenue), (SELECT count(*) FROM late_orders), (SELECT count(*) FROM dead_orders)
"""
CORRECTED = "SELECT count(*) FROM revenue WHERE pane_timing = 'LATE'"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--orders", type=int, default=3_000, help="number of orders")
    options.add_argument("--seed", type=int, default=1, help="seed of the random orders")
    options.add_argument("--kafka", metavar="HOST:PORT", help="a broker; default: one is started")
    options.add_argument("--postgres", metavar="URL", help="a database; default: a server is started")
    options.add_argument("--jars", type=Path, default=servers.JARS, help="where downloaded jars are stored")
    options.add_argument("--archive", type=Path, help="a Parquet file in which to keep the messages")
    arguments = options.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # a terminated run also stops its servers
    with ExitStack() as stack:
        print("Starting Kafka, PostgreSQL and Spark …", flush=True)
        connector = servers.connector(arguments.jars)
        kafka = arguments.kafka or stack.enter_context(servers.kafka(arguments.jars))
        postgres = arguments.postgres or stack.enter_context(servers.postgres())
        checkpoint = stack.enter_context(tempfile.TemporaryDirectory(prefix="example-checkpoint-"))
        messages = producer.generate(arguments.orders, arguments.seed, datetime.now(UTC))
        if arguments.archive:
            messages.write_parquet(arguments.archive)
        spark = job.session(connector)
        stack.callback(spark.stop)
        alert = job.LagAlert(timedelta(minutes=10), lambda text: print(f"  {text}", flush=True))
        first, *waves = messages.partition_by("wave", maintain_order=True)
        producer.send(spark, first, kafka=kafka, topic=job.TOPIC)  # creates the topic
        query = job.start(
            spark, kafka=kafka, postgres=postgres, checkpoint=checkpoint, alert=alert, interval="500 milliseconds"
        )
        for number, wave in enumerate([first, *waves]):
            if number:
                producer.send(spark, wave, kafka=kafka, topic=job.TOPIC)
            query.process_all_available()
            done = query.history
            late, retracted = sum(batch.late for batch in done), sum(batch.retractions for batch in done)
            print(f"wave {number}: {wave.height} messages; so far {retracted} panes retracted, {late} orders too late")
        query.control.drain()  # the demonstration ends: every open window fires
        query.process_all_available()
        query.stop()
        with psycopg.connect(postgres) as database:
            counts = database.execute(TOTALS).fetchone()
            corrected = database.execute(CORRECTED).fetchone()
    assert counts and corrected
    kept, late, dead = counts
    print(f"{corrected[0]} results in the table were corrected by late orders.")
    print(f"{messages.height} messages = {kept} in windows + {late} late + {dead} dead letters")
    if messages.height != kept + late + dead:
        raise SystemExit("Messages are missing.")


if __name__ == "__main__":
    main()
