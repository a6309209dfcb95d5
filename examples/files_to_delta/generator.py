"""Orders in files: four archived days as Parquet, and a fifth day that arrives in JSON files of three hours.

Some new orders arrive a file late, or belong to the last evening of the archive, and correct a result. Some are of the
morning of that day, and are too late. Some lines are invalid.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import polars as pl

FIRST_DAY = datetime(2025, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)
DAYS = 4  # in the archive
FILES = 8  # of the day after the archive
SHOPS = ("bern", "kiel", "oslo", "rome")


@dataclass
class Generator:
    """Random orders with consecutive numbers."""

    orders: int  # of a day
    seed: int

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        self._number = 0

    def archive(self, place: Path) -> None:
        """Write a Parquet file for each archived day."""
        for number in range(DAYS):
            day = FIRST_DAY + number * DAY
            rows = [self._order(day, day + DAY) for _ in range(self.orders)]
            write_parquet(pl.DataFrame(rows), place / f"{day:%Y-%m-%d}.parquet")

    def incoming(self) -> list[list[str]]:
        """Return the lines of each JSON file of the day after the archive."""
        today = FIRST_DAY + DAYS * DAY
        span = DAY / FILES
        files: list[list[str]] = [[] for _ in range(FILES)]
        for _ in range(self.orders):
            number = self._random.randrange(FILES)
            order = self._order(today + number * span, today + (number + 1) * span)
            late = self._random.random() < 0.05
            files[min(number + late, FILES - 1)].append(_line(order))
        for _ in range(self.orders // 50):
            evening = self._order(today - timedelta(hours=2), today)
            morning = self._order(today - DAY, today - DAY / 2)
            files[0].append(_line(evening))
            files[self._random.randrange(FILES)].append(_line(morning))
        for lines in files:
            wrong_clock = self._order(today, today + DAY) | {"ts": datetime(2062, 3, 1, tzinfo=UTC)}
            lines += [_line(wrong_clock), '{"order_id": "cut off']
        return files

    def _order(self, start: datetime, end: datetime) -> dict[str, object]:
        self._number += 1
        ts = start + self._random.random() * (end - start)
        return {
            "order_id": f"{self.seed}-{self._number}",
            "shop": self._random.choice(SHOPS),
            "cents": self._random.randint(100, 9_999),
            "ts": ts,
        }


def correct(file: Path, shop: str) -> None:
    """Replace an archived file: a till of the shop had counted half of each amount."""
    amount = pl.when(shop=shop).then(pl.col("cents") * 2).otherwise("cents")
    write_parquet(pl.read_parquet(file).with_columns(cents=amount), file)


def write_parquet(orders: pl.DataFrame, file: Path) -> None:
    """Write a file under a hidden name and rename it, so that a reader never sees a partial file."""
    orders.write_parquet(file.with_name(f".{file.name}"))
    file.with_name(f".{file.name}").rename(file)


def write_lines(lines: list[str], file: Path) -> None:
    """Write lines under a hidden name and rename the file."""
    file.with_name(f".{file.name}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    file.with_name(f".{file.name}").rename(file)


def _line(order: dict[str, object]) -> str:
    return json.dumps(order, default=datetime.isoformat)
