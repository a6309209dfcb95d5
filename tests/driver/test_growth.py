"""The warning of a query that outgrows the driver: from measures of its batches, once."""

from __future__ import annotations

import pytest

from eventide.spark.driver_query import BATCHES, Growth

REMEDY = "eventide rescale /checkpoints/orders --buckets 8"


@pytest.fixture
def growth() -> Growth:
    return Growth("/checkpoints/orders", memory=1000, buckets=8)


def test_long_batches_that_are_spent_on_state_are_a_reason_to_move(growth: Growth) -> None:
    messages = [growth.message(seconds=5, compute=4, pinned_bytes=0) for _ in range(3 * BATCHES)]
    (message,) = filter(None, messages)
    assert messages.index(message) == BATCHES - 1
    assert message.startswith("Batches take 5.0 seconds, and the driver spends 80 % of them on state.")
    assert message.endswith(REMEDY)


@pytest.mark.parametrize(
    ("seconds", "compute"),
    [(1.5, 1.5), (3, 2), (100, 10)],
    ids=["short batches", "executors would add what they save", "batches that wait for their source"],
)
def test_other_batches_are_none(growth: Growth, seconds: float, compute: float) -> None:
    batches = [growth.message(seconds=seconds, compute=compute, pinned_bytes=0) for _ in range(3 * BATCHES)]
    assert not any(batches)


def test_few_executors_are_no_reason() -> None:
    few = Growth("/checkpoints/orders", memory=1000, buckets=2)
    assert not any(few.message(seconds=5, compute=4, pinned_bytes=0) for _ in range(3 * BATCHES))


def test_a_single_slow_batch_is_no_reason(growth: Growth) -> None:
    slow = [300 if number == 5 else 1 for number in range(3 * BATCHES)]
    assert not any(growth.message(seconds=seconds, compute=seconds, pinned_bytes=0) for seconds in slow)


def test_state_that_fills_its_memory_is_a_reason_to_move(growth: Growth) -> None:
    assert growth.message(seconds=1, compute=1, pinned_bytes=799) is None
    message = growth.message(seconds=1, compute=1, pinned_bytes=800)
    assert message is not None and message.startswith("Open panes, waiting rows and") and message.endswith(REMEDY)
    assert growth.message(seconds=1, compute=1, pinned_bytes=900) is None


def test_state_that_cannot_move_gets_no_command() -> None:
    message = Growth("s3a://orders", memory=1000, buckets=8, can_move=False).message(
        seconds=1, compute=1, pinned_bytes=900
    )
    assert message is not None and "eventide rescale s3a" not in message
    assert "drain the query and start it with state='executors' and a new checkpoint" in message
    assert "Its state cannot be moved: eventide rescale needs a checkpoint that also has the commit records" in message
