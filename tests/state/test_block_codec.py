"""Long columns in pages: a write puts the blocks that changed, and no others."""

from __future__ import annotations

from random import Random
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.operators.operator import Bundle
from eventide.operators.windowed_aggregate import WindowedAggregate
from eventide.state import block_codec as blocks
from eventide.state.block_codec import BLOCK_ROWS, StoredBlocks, read_blocks, write_blocks
from eventide.state.pages import PageReader, PageWriter
from tests.state.harness import Paged, Store

MANY = 30_000


class Written:
    """Data in pages, as a host writes them."""

    def __init__(self) -> None:
        self.store, self.next = Store(), 1
        self.stored: StoredBlocks | None = None
        self.head: Any = None

    def write(self, content: Any) -> int:
        """How many pages a write puts."""
        writer = PageWriter(self.store, self.next)
        self.head, self.stored = write_blocks(content, self.stored, writer)
        writer.finish()
        put, self.next = writer.next_page - self.next, writer.next_page
        assert set(self.store.pages) == {page.number for page in self.stored.all()}
        return put

    def read(self) -> Any:
        reader = PageReader()
        with reader.attach(self.store):
            content, self.stored = read_blocks(self.head, reader)
        return content


def runs_of(starts: list[int]) -> pl.DataFrame:
    starts = sorted(starts)
    return pl.DataFrame({"origin": [1] * len(starts), "start": starts, "end": starts, "watermark": 5})


def test_a_value_that_changes_is_written_with_its_block_only() -> None:
    data, values = Written(), list(range(MANY))
    assert data.write({"at": pl.Series("at", values), "n": 1}) == -(-MANY // BLOCK_ROWS)
    values[BLOCK_ROWS + 5] = -1
    assert data.write({"at": pl.Series("at", values), "n": 2}) == 1
    assert data.write({"at": pl.Series("at", [*values, 7]), "n": 2}) == 1
    observed = data.read()
    assert observed["at"].to_list() == [*values, 7]
    assert data.write(observed) == 0


def test_a_run_that_comes_or_goes_moves_no_other_block() -> None:
    data, rng = Written(), Random(0)
    starts = rng.sample(range(10 * MANY), MANY)
    assert data.write([{"runs": runs_of(starts)}]) > 5
    for _ in range(10):
        starts.remove(rng.choice(starts))
        starts.append(rng.choice([start for start in range(9) if start not in starts] or [10 * MANY + len(starts)]))
        assert data.write([{"runs": runs_of(starts)}]) <= 3
        assert data.read()[0]["runs"].equals(runs_of(starts))


def test_short_columns_stay_in_the_head() -> None:
    data, content = Written(), {"at": pl.Series("at", range(10)), "deep": [{"runs": runs_of([1, 5])}]}
    assert data.write(content) == 0
    assert data.read()["deep"][0]["runs"].equals(runs_of([1, 5]))


def test_a_batch_of_one_row_writes_little_despite_many_origins() -> None:
    strategy = ev.bounded_delay("1 second", origin="device")
    pipeline = ev.stream(time="t", key="k", watermark=strategy).window(ev.tumbling("1m")).agg(n=ev.count())
    schema = {"t": pl.Int64(), "k": pl.Int64(), "device": pl.String()}
    operator = WindowedAggregate(pipeline.plan, schema)
    paged = Paged(operator)
    devices = pl.DataFrame({"t": 0, "k": 0, "device": [f"device {i}" for i in range(MANY)]}, schema=schema)
    paged.step(lambda state: operator.step(state, Bundle(devices, 0)))
    whole = paged.manifest.written
    frame = pl.DataFrame({"t": [1], "k": [0], "device": ["device 7"]}, schema=schema)
    paged.step(lambda state: operator.step(state, Bundle(frame, 1)))
    assert paged.manifest.written < whole / 5
    before = paged.state.tracker
    paged.restart()
    assert paged.state.tracker.metrics() == before.metrics()


@pytest.mark.parametrize("limit", [1, 3])
def test_random_states_of_watermarks_survive_in_small_blocks(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ROWS", limit)
    rng = Random(limit)
    strategy = ev.bounded_delay("5 microseconds", origin="device", sequence="n", idle_timeout="20 microseconds")
    pipeline = ev.stream(time="t", watermark=strategy).window(ev.tumbling("9 microseconds")).agg(n=ev.count())
    schema = {"t": pl.Int64(), "device": pl.String(), "n": pl.Int64()}
    operator = WindowedAggregate(pipeline.plan, schema)
    paged, state = Paged(operator), operator.initial()
    for now in range(30):
        rows = [(now + rng.randrange(9), rng.choice("abcdefg"), rng.randrange(1, 40)) for _ in range(4)]
        bundle = Bundle(pl.DataFrame(rows, schema=schema, orient="row"), now)
        step = operator.step(state, bundle)
        output = paged.step(lambda state, bundle=bundle: operator.step(state, bundle))
        assert output.panes.equals(step.output.panes)
        assert output.watermark_us == step.output.watermark_us
        state = step.state
        rng.choice([paged.restart, lambda: paged.refresh(1), lambda: None])()
