"""A shop that is open for half a minute: four tills write sales as files, and one loses its connection."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import polars as pl

SCHEMA = {"ts": pl.Datetime("us", "UTC"), "till": pl.String(), "price": pl.Int64()}
SPARK_SCHEMA = "ts timestamp, till string, price bigint"
TILLS = ("north", "east", "south", "west")
STALLS, RETURNS = 8, 16  # seconds after opening: west is cut off, and sends what it has kept


@dataclass(frozen=True)
class Second:
    """What the tills send in one second."""

    number: int
    sales: pl.DataFrame
    news: str = ""


def day(opening: datetime, seconds: int) -> Iterator[Second]:
    """Second by second, the same sales each time; only the hour on the clock differs."""
    rng = Random(102)
    kept: list[tuple[datetime, str, int]] = []
    for number in range(seconds):
        sales: list[tuple[datetime | None, str, int]] = []
        for till in TILLS:
            for _ in range(rng.randint(1, 3)):
                when = opening + timedelta(seconds=number - rng.uniform(0, 1.5))
                sale = (when, till, rng.randint(1, 20))
                (kept if till == "west" and STALLS <= number < RETURNS else sales).append(sale)
        news = ""
        if number == STALLS:
            news = "till 'west' has lost its connection"
        if number == RETURNS:
            news, sales = f"till 'west' is back, with {len(kept)} sales that it had kept", [*sales, *kept]
        if number == RETURNS + 4:
            forgotten = (opening - timedelta(seconds=40), "south", 7)
            news, sales = "a sale from long ago, and one without a time", [*sales, forgotten, (None, "east", 3)]
        yield Second(number, pl.DataFrame(sales, schema=SCHEMA, orient="row"), news)


def write(second: Second, place: Path) -> None:
    """A file that appears at once."""
    hidden = place / f".{second.number:05}"
    second.sales.write_parquet(hidden)
    now = datetime.now(UTC).timestamp()
    os.utime(hidden, (now, now))
    hidden.rename(place / f"{second.number:05}.parquet")
