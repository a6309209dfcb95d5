"""The simulation of progress: what it counts grows as both ways of progress do."""

from __future__ import annotations

from bench.simulation import count, table


def test_direct_progress_grows_with_the_product_and_coalesced_progress_with_the_sum() -> None:
    small, large = ({way: count(size, size, 400, way, rows=50) for way in ("direct", "coalesced")} for size in (4, 16))
    growth = {way: large[way].progress_bytes / small[way].progress_bytes for way in ("direct", "coalesced")}
    assert growth["direct"] > 2 * growth["coalesced"]
    assert large["direct"].state_bytes > 3 * small["direct"].state_bytes
    assert large["coalesced"].state_bytes < 3 * small["coalesced"].state_bytes
    assert "| 16 | 16 | 400 | coalesced |" in table([large["coalesced"]])
