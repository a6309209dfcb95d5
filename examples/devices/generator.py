"""Uploads of four devices in six hours, one file per hour.

The pump is 40 minutes behind the others. The roof loses its connection after two hours and returns in the last hour
with everything that it has stored: its oldest readings are too late by then. Some readings have no valid time.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

START = datetime(2025, 3, 1, tzinfo=UTC)
HOURS = 6
BEHIND = {"boiler": timedelta(), "chiller": timedelta(seconds=20), "pump": timedelta(minutes=40), "roof": timedelta()}
OFFLINE = {"roof": range(2, HOURS - 1)}  # hours in which a device is not connected
READING_EVERY = timedelta(seconds=30)


def generate(seed: int) -> list[list[str]]:
    """Return the lines of each file."""
    random = Random(seed)
    files: list[list[str]] = [[] for _ in range(HOURS)]
    for device, behind in BEHIND.items():
        for number in range(HOURS * timedelta(hours=1) // READING_EVERY):
            at = START + number * READING_EVERY + random.random() * READING_EVERY
            hour = int((at + behind - START) / timedelta(hours=1))
            if hour >= HOURS:
                continue  # not uploaded yet
            upload = HOURS - 1 if hour in OFFLINE.get(device, ()) else hour
            reading = {"device": device, "number": number, "celsius": random.gauss(40, 8), "at": at.isoformat()}
            chance = random.random()
            if chance < 0.005:
                reading["at"] = None  # the clock is not set
            elif chance < 0.01:
                reading["at"] = datetime(2062, 3, 1, tzinfo=UTC).isoformat()  # the clock is wrong
            files[upload].append(json.dumps(reading))
    for lines in files:
        random.shuffle(lines)  # devices send when they have a connection
        lines.append('{"device": "boiler", "num')  # an upload that was cut off
    return files


def write_lines(lines: list[str], file: Path) -> None:
    """Write a file under a hidden name and rename it, so that a reader never sees a partial file."""
    file.with_name(f".{file.name}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    file.with_name(f".{file.name}").rename(file)
