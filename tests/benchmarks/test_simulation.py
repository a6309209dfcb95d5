"""The simulation of progress: what it counts grows as both ways of progress do."""

from __future__ import annotations

import pytest

from bench.simulation import count, table


def test_direct_progress_grows_with_the_product_and_coalesced_progress_with_the_sum() -> None:
    small, large = ({way: count(size, size, 400, way, rows=50) for way in ("direct", "coalesced")} for size in (4, 16))
    growth = {way: large[way].progress_bytes / small[way].progress_bytes for way in ("direct", "coalesced")}
    assert growth["direct"] > 2 * growth["coalesced"]
    assert large["direct"].state_bytes > 3 * small["direct"].state_bytes
    assert large["coalesced"].state_bytes < 3 * small["coalesced"].state_bytes
    assert "| 16 | 16 | 400 | coalesced |" in table([large["coalesced"]])


def test_coalesced_progress_is_linear_in_tasks_and_buckets() -> None:
    def progress_bytes(tasks: int, buckets: int) -> int:
        return count(tasks, buckets, 10 * tasks, "coalesced", rows=50).progress_bytes  # each task has its origins

    start = progress_bytes(4, 4)
    by_task, by_bucket = (progress_bytes(16, 4) - start) / 12, (progress_bytes(4, 16) - start) / 12
    assert by_task > 0 and by_bucket > 0
    for tasks, buckets in [(40, 4), (4, 40), (40, 40)]:
        expected = start + by_task * (tasks - 4) + by_bucket * (buckets - 4)
        assert progress_bytes(tasks, buckets) == pytest.approx(expected, rel=0.05), (tasks, buckets)
