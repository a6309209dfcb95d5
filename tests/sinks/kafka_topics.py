"""A topic of Kafka in memory: messages as the sink writes them, and writers that fail and repeat batches."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any
from zlib import crc32

import polars as pl

Message = dict[str, Any]


def message(
    shop: str = "kiel",
    start: int = 0,
    *,
    batch: int = 0,
    index: int | None = 0,
    diff: int | None = 1,
    row: str | None = None,
    query: str = "q",
    output: str = "panes",
    **values: Any,
) -> Message:
    """A message with the key and the headers of the sink; the value is what a test wants to compare."""
    texts = {"query": query, "output": output, "batch": batch, "pane_index": index, "diff": diff, "row": row}
    return {
        "key": json.dumps({"shop": shop, "window_start": start}).encode(),
        "value": json.dumps({"shop": shop, "start": start, "diff": diff, **values}).encode(),
        "headers": headers(**{name: str(text) for name, text in texts.items() if text is not None}),
    }


def headers(**texts: str) -> list[dict[str, Any]]:
    return [{"key": name, "value": text.encode()} for name, text in texts.items()]


@dataclass
class Topic:
    """The partitions of a topic. As in Kafka, the key of a message decides its partition."""

    partitions: int = 1
    name: str = "revenue"
    messages: list[Message] = field(default_factory=list)
    _ends: dict[int, int] = field(default_factory=dict)

    def append(self, messages: Iterable[Message]) -> None:
        for each in messages:
            partition = crc32(each["key"]) % self.partitions
            offset = self._ends.get(partition, 0)
            self._ends[partition] = offset + 1
            self.messages.append({"topic": self.name, "partition": partition, "offset": offset, **each})

    def write(self, messages: Sequence[Message], rng: Random) -> None:
        """Write a batch by several tasks. Attempts fail before one succeeds; each has written any part."""
        while rng.random() < 0.4:
            attempt = _by_tasks(messages, rng)
            self.append(attempt[: rng.randint(0, len(attempt))])
        self.append(_by_tasks(messages, rng))

    def polls(self, rng: Random) -> list[pl.DataFrame]:
        """The messages as a consumer gets them: each partition in order, the partitions at different speeds."""
        waiting = {number: self.partition(number) for number in range(self.partitions)}
        polls = []
        while any(waiting.values()):
            taken: list[Message] = []
            for number, messages in waiting.items():
                count = rng.choice([0, 1, 3, 10])
                taken += messages[:count]
                waiting[number] = messages[count:]
            rng.shuffle(taken)  # the rows of a frame are in no order
            polls.append(records(taken))
        return polls

    def partition(self, number: int) -> list[Message]:
        return [each for each in self.messages if each["partition"] == number]


def _by_tasks(messages: Sequence[Message], rng: Random) -> list[Message]:
    """The messages in the order of an attempt: tasks write at the same time, and a task has all messages of a key."""
    tasks: dict[int, list[Message]] = {}
    for each in messages:
        tasks.setdefault(crc32(each["key"], 7) % 3, []).append(each)
    merged = []
    while tasks:
        task = rng.choice(list(tasks))
        merged.append(tasks[task].pop(0))
        if not tasks[task]:
            del tasks[task]
    return merged


def records(messages: Sequence[Message]) -> pl.DataFrame:
    """Messages in the columns of Spark's Kafka source."""
    schema = {
        "topic": pl.String,
        "partition": pl.Int32,
        "offset": pl.Int64,
        "key": pl.Binary,
        "value": pl.Binary,
        "headers": pl.List(pl.Struct({"key": pl.String, "value": pl.Binary})),
    }
    return pl.DataFrame(list(messages), schema=schema)
