"""Readers of a topic: each message counts once, for any repeats of a writer."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.sinks import drop_repeats
from tests.effort import examples
from tests.sinks.kafka_topics import Message, Topic, headers, message, records


def read(*polls: pl.DataFrame) -> tuple[list[Any], pl.DataFrame]:
    """The values that a reader keeps, and what it has seen in the end."""
    seen: pl.DataFrame | None = None
    kept = []
    for poll in polls:
        fresh, seen = drop_repeats(poll, seen)
        kept += fresh["value"].to_list()
    assert seen is not None
    return kept, seen


def topic_of(*messages: Message, partitions: int = 1) -> Topic:
    topic = Topic(partitions)
    topic.append(messages)
    return topic


def one_poll_each(topic: Topic) -> list[pl.DataFrame]:
    return [records([each]) for each in topic.messages]


A, B, C = (message(shop, n=1) for shop in ("kiel", "rom", "oslo"))


@pytest.mark.parametrize("poll", [one_poll_each, lambda topic: [records(topic.messages)]])
@pytest.mark.parametrize(
    "written",
    [
        pytest.param([A, B, C], id="complete"),
        pytest.param([A, A, B, C], id="the first message twice"),
        pytest.param([A, B, A, B, C], id="a part twice"),
        pytest.param([A, B, C, C, B, A], id="all in another order"),
        pytest.param([C, A, A, B, B, C, A], id="two failed attempts"),
    ],
)
def test_a_repeated_batch_adds_nothing(written: list[Message], poll: Any) -> None:
    kept, seen = read(*poll(topic_of(*written)))
    assert Counter(kept) == Counter(each["value"] for each in (A, B, C))
    assert seen.height == 3


def test_the_first_copy_is_kept_in_the_order_of_the_frame() -> None:
    frame = records(topic_of(A, B, A, C).messages)
    fresh, _ = drop_repeats(frame.reverse())
    assert fresh["offset"].to_list() == [3, 1, 0]
    assert fresh.columns == frame.columns


def test_a_retraction_and_its_replacement_are_two_messages() -> None:
    retraction, replacement = message(batch=1, diff=-1), message(batch=1, index=1)
    kept, _ = read(records(topic_of(message(), retraction, replacement, retraction, replacement).messages))
    assert len(kept) == 3


def test_the_same_pane_of_a_later_batch_is_another_message() -> None:
    kept, _ = read(records(topic_of(*(message(batch=batch, diff=(-1) ** batch) for batch in range(4))).messages))
    assert [json.loads(value)["diff"] for value in kept] == [1, -1, 1, -1]


def test_equal_rows_are_counted_by_their_number() -> None:
    rows = [message(index=None, diff=None, output="late", row=f"f00d-{number}") for number in range(3)]
    kept, _ = read(*one_poll_each(topic_of(rows[0], rows[1], *rows, *rows)))
    assert len(kept) == 3


def test_a_batch_that_a_paused_driver_writes_late_is_dropped() -> None:
    late = topic_of(message(batch=0), message(batch=1), message("kiel", 60, batch=0))
    kept, seen = read(*one_poll_each(late))
    assert len(kept) == 2 and seen["batch"].to_list() == [1]


def test_partitions_queries_outputs_and_topics_are_independent() -> None:
    first = {"topic": "a", "partition": 0, "offset": 0, **message(batch=7)}
    others = [
        first | {"topic": "b"} | message(batch=3),
        first | {"partition": 1} | message(batch=3),
        first | {"offset": 1} | message(batch=3, query="r"),
        first | {"offset": 2} | message(batch=3, output="late"),
    ]
    kept, seen = read(records([first]), records(others))
    assert len(kept) == 5 and seen.height == 5


def test_a_frame_without_a_topic_is_one_topic() -> None:
    frame = records(topic_of(A, A).messages).drop("topic")
    fresh, seen = drop_repeats(frame)
    assert fresh.height == 1
    assert drop_repeats(frame, seen)[0].is_empty()


@pytest.mark.parametrize(
    "foreign",
    [
        None,
        [],
        headers(trace="1"),
        headers(query="q", output="panes"),
        headers(query="q", output="panes", batch="next"),
        [*headers(query="q", output="panes"), {"key": "batch", "value": b"\xff"}],
        [*headers(query="q", output="panes"), {"key": "batch", "value": None}],
    ],
)
def test_messages_of_other_producers_are_kept(foreign: Any) -> None:
    frame = records([{"topic": "t", "partition": 0, "offset": n, **A, "headers": foreign} for n in range(2)])
    fresh, seen = drop_repeats(frame)
    assert fresh.height == 2 and seen.is_empty()


def test_headers_of_others_do_not_matter() -> None:
    traced = A | {"headers": [*headers(trace="1"), *A["headers"]]}
    kept, _ = read(records(topic_of(A, traced).messages))
    assert len(kept) == 1


def test_a_poll_without_messages_forgets_nothing() -> None:
    kept, _ = read(records(topic_of(A).messages), records([]), records(topic_of(A).messages))
    assert len(kept) == 1


def test_what_was_seen_can_be_stored(tmp_path: Any) -> None:
    _, seen = read(records(topic_of(A, B).messages))
    seen.write_parquet(tmp_path / "seen.parquet")
    fresh, _ = drop_repeats(records(topic_of(A, B, C).messages), pl.read_parquet(tmp_path / "seen.parquet"))
    assert fresh["offset"].to_list() == [2]


@pytest.mark.parametrize(("column", "hint"), [("headers", "includeHeaders=True"), ("offset", "'offset'")])
def test_a_frame_without_a_needed_column_is_rejected(column: str, hint: str) -> None:
    with pytest.raises(ev.PlanError, match=hint):
        drop_repeats(records([]).drop(column))


RETRACTING = (
    ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("5 seconds"))
    .window(ev.sessions("10 seconds"))
    .emit(early=ev.on_update(), late=ev.on_update(), allowed_lateness="1 minute")
    .agg(n=ev.count(), total=ev.sum("price"))
)


def batches_of_panes(rng: Random) -> list[list[Message]]:
    """The panes of a random history, as messages."""
    bundles = [
        pl.DataFrame(
            {
                "ts": [rng.randint(10 * at, 10 * at + 60) * 1_000_000 for _ in range(8)],
                "shop": [rng.choice("abcd") for _ in range(8)],
                "price": [rng.randint(1, 9) for _ in range(8)],
            }
        )
        for at in range(6)
    ]
    steps = RETRACTING.local(bundles, clock=range(6)).steps
    return [
        [
            message(
                row["shop"],
                str(row["window_start"]) + str(row["window_end"]),
                batch=batch,
                index=row["pane_index"],
                diff=row["diff"],
                n=row["n"],
                total=row["total"],
            )
            for row in step.panes.to_dicts()
        ]
        for batch, step in enumerate(steps)
    ]


def sum_of_diffs(values: list[Any]) -> Counter[str]:
    total: Counter[str] = Counter()
    for value in values:
        row = json.loads(value)
        diff = row.pop("diff")
        total[json.dumps(row)] += diff
    return Counter({row: count for row, count in total.items() if count})


@pytest.mark.parametrize("seed", range(examples(80)))
def test_the_diffs_add_up_for_any_repetition(seed: int) -> None:
    rng = Random(seed)
    batches = batches_of_panes(rng)
    topic = Topic(rng.choice([1, 2, 5]))
    for number, batch in enumerate(batches):
        topic.write(batch, rng)
        if number and rng.random() < 0.3:  # a driver that was paused writes on, after its successor
            stale = batches[rng.randrange(number)]
            topic.append(rng.sample(stale, rng.randint(0, len(stale))))
    kept, seen = read(*topic.polls(rng))
    once = [each["value"] for batch in batches for each in batch]
    assert Counter(kept) == Counter(once)
    assert sum_of_diffs(kept) == sum_of_diffs(once)
    assert seen.height <= topic.partitions * max(map(len, batches))


def test_a_repeat_without_a_reader_does_not_add_up() -> None:
    """The histories above are worth something: without the reader, many of them are wrong."""
    wrong = 0
    for seed in range(20):
        rng = Random(seed)
        topic, batches = Topic(), batches_of_panes(rng)
        for batch in batches:
            topic.write(batch, rng)
        once = [each["value"] for batch in batches for each in batch]
        wrong += sum_of_diffs([each["value"] for each in topic.messages]) != sum_of_diffs(once)
    assert wrong > 10
