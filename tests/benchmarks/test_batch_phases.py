"""The phases of slow batches in a benchmark."""

from __future__ import annotations

from types import SimpleNamespace

from bench.spark.batch_phases import average, phases_of_query, slowest, typical, with_numbers

PROGRESS = [
    {"batchId": number, "durationMs": {"addBatch": 60 + number, "walCommit": 5, "triggerExecution": 80 + number}}
    for number in range(200)
]
HISTORY = [SimpleNamespace(batch=number, phases={"compute": 0.03, "deliver": 0.0001}) for number in range(200)]


def test_the_slowest_hundredth_shows_where_its_time_goes() -> None:
    batches = phases_of_query(PROGRESS, HISTORY)
    slow = slowest(batches)
    assert [batch.batch for batch in slow] == [199, 198]
    assert average(slow) == {"triggerExecution": 278.5, "addBatch": 258.5, "compute": 30.0, "walCommit": 5.0}
    assert typical(batches)["addBatch"] == 159.5


def test_the_batches_of_slow_rows_are_identified_by_their_numbers() -> None:
    batches = phases_of_query(PROGRESS)
    assert [batch.batch for batch in with_numbers(batches, {7, 9})] == [7, 9]


def test_triggers_without_a_batch_and_runs_without_batches_have_no_phases() -> None:
    idle = [{"batchId": 5, "durationMs": {"triggerExecution": 3}}]
    assert phases_of_query(idle) == [] and average(slowest([])) == {}
