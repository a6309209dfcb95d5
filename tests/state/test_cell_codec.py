"""Cells in pages, compared with the same cells in memory: appended unread, fetched when their slices are asked for."""

from __future__ import annotations

from random import Random

import numpy as np
import polars as pl
import pytest

import eventide as ev
from eventide.state.cell_table import CellCodec, CellTable, StoredRuns
from eventide.state.pages import PAGE_BYTES, PageReader, PageWriter
from tests.state.harness import Store, small_pages

SLICE = "__slice"
CODEC = CellCodec(SLICE)


def frame(slices: list[int], value: float = 1.0) -> pl.DataFrame:
    keys = np.arange(len(slices))
    return pl.DataFrame({"key": keys, SLICE: slices, "value": value + keys / 7}, schema_overrides={SLICE: pl.Int64})


def merge(cells: pl.DataFrame) -> pl.DataFrame:
    return cells.group_by("key", SLICE, maintain_order=True).agg(pl.col("value").sum())


class Shelved:
    """Cells and their pages."""

    def __init__(self) -> None:
        self.cells, self.store, self.reader = CellTable(SLICE), Store(), PageReader()
        self.stored: StoredRuns | None = None
        self.head: dict[str, object] = {}
        self.next = 1

    def write(self, *, commit: bool = True) -> Store:
        store = self.store.copy()
        writer = PageWriter(store, self.next)
        with self.reader.attach(store):
            head, stored = CODEC.write(self.cells, self.stored, writer, self.reader)
        writer.finish()
        assert set(store.pages) == {page.number for stored in stored.values() for page in stored.all()}
        if commit:
            self.head, self.stored, self.next, self.store = head, stored, writer.next_page, store
        return store

    def restart(self) -> None:
        with self.reader.attach(self.store):
            self.cells, self.stored = CODEC.read(self.head, self.reader)

    def evict(self, keep: int = 0) -> None:
        assert self.stored is not None
        self.cells = CODEC.evict(self.cells, self.stored, self.reader, keep)

    def append(self, slices: list[int], value: float = 1.0) -> None:
        with self.reader.attach(self.store):
            self.cells = self.cells.append(frame(slices, value), merge)

    def drop(self, slices: list[int]) -> None:
        self.cells = self.cells.drop(np.array(slices, np.int64))

    def read(self, slices: list[int]) -> list[pl.DataFrame]:
        with self.reader.attach(self.store):
            return self.cells.read(np.array(slices, np.int64))


@pytest.mark.parametrize("seed", range(12))
def test_what_is_written_is_what_is_in_memory(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(seed)
    if seed % 3:
        small_pages(monkeypatch, limit=300 * seed, inline=rng.choice([1, 3, 100]))
    paged, memory, low = Shelved(), CellTable(SLICE), 0
    for turn in range(60):
        slices = [low + rng.randint(0, 9) for _ in range(rng.choice([0, 1, 5, 30]))]
        paged.append(slices, turn)
        memory = memory.append(frame(slices, turn), merge)
        if rng.random() < 0.3:
            gone = [low] if rng.random() < 0.7 else rng.sample(range(low, low + 9), 3)
            paged.drop(gone)
            memory = memory.drop(np.array(gone, np.int64))
            low += 1
        if rng.random() < 0.2:
            paged.write(commit=False)
        if rng.random() < 0.8:
            paged.write()
            happens = rng.choice(["nothing", "restart", "let go", "let go of some"])
            if happens == "restart":
                paged.restart()
            elif happens != "nothing":
                paged.evict(0 if happens == "let go" else 500)
        assert paged.cells.height == memory.height
        assert paged.cells.slices(low + 5).tolist() == memory.slices(low + 5).tolist()
        first = rng.randint(low - 1, low + 9)
        wanted = list(range(first, first + 3))
        in_memory = memory.read(np.array(wanted, np.int64))
        assert [part.rows() for part in paged.read(wanted)] == [part.rows() for part in in_memory]


def test_appending_and_writing_reads_nothing() -> None:
    paged = Shelved()
    paged.append([0] * 1000)
    paged.write()
    paged.restart()
    for _ in range(5):
        paged.store.got.clear()
        paged.append([0, 1, 2])
        store = paged.write()
        assert paged.store.got == [] and len(store.puts) == 1


def test_only_the_pages_of_the_slices_that_are_asked_for_are_fetched() -> None:
    paged = Shelved()
    paged.append(np.repeat(np.arange(10), 40_000).tolist())
    assert 10 <= len(paged.write().puts) <= 20
    paged.restart()
    (part,) = paged.read([4])
    assert part.height == 40_000 and len(paged.store.got) <= 2
    paged.store.got.clear()
    paged.read([4])
    assert paged.store.got == []


def test_pages_are_cut_at_slices_where_that_fills_them() -> None:
    paged = Shelved()
    paged.append(np.repeat(np.arange(8), 30_000).tolist())
    paged.write()
    assert paged.stored is not None
    (stored,) = paged.stored.values()
    assert [page.start for page in stored.pages] == list(range(0, 240_000, 30_000))


def test_pages_of_expired_slices_are_dropped_unread_and_others_stay() -> None:
    paged = Shelved()
    paged.append(np.repeat(np.arange(8), 30_000).tolist())
    paged.write()
    first = min(paged.store.pages)
    paged.drop([0, 1, 2])
    store = paged.write()
    assert store.dropped == [first, first + 1, first + 2] and store.puts == [] and store.got == []
    paged.restart()
    assert paged.cells.slices(100).tolist() == [3, 4, 5, 6, 7] and paged.cells.height == 150_000


def test_a_page_that_is_partly_gone_stays_as_it_is_and_its_gone_rows_are_not_read() -> None:
    paged = Shelved()
    paged.append([0, 0, 1, 2, 2, 3])
    paged.write()
    paged.drop([0, 2])
    store = paged.write()
    assert store.puts == [] and store.dropped == []
    paged.restart()
    (part,) = paged.read([0, 1, 2, 3])
    assert part[SLICE].to_list() == [1, 3] and paged.cells.height == 2


def test_a_slice_that_arrives_again_is_not_mixed_up_with_the_one_that_was_dropped() -> None:
    paged = Shelved()
    paged.append([0, 0, 1])
    paged.write()
    paged.drop([0])
    paged.append([0], 50.0)
    paged.write()
    paged.restart()
    assert [part["value"].to_list() for part in paged.read([0])] == [[50.0]]


def test_slices_that_are_gone_before_the_first_write_are_not_written() -> None:
    paged = Shelved()
    paged.append([0] * 50_000 + [1, 1, 2, 3])
    paged.drop([0, 2])
    assert sum(paged.write().puts) < 5000
    paged.restart()
    (part,) = paged.read([0, 1, 2, 3])
    assert part["key"].to_list() == [50_000, 50_001, 50_003]


def test_many_slices_have_a_page_of_their_own_that_is_written_once() -> None:
    paged = Shelved()
    paged.append(list(range(1000)))
    assert len(paged.write().puts) == 2
    for last in (10, 500, 980):
        paged.drop(list(range(last)))
        assert paged.write().puts == []
        paged.restart()
        assert paged.cells.slices(2000).tolist() == list(range(last, 1000))
    paged.drop([990])
    assert paged.write().puts == [], "few slices are listed in the header"
    paged.restart()
    assert paged.cells.height == 19 and paged.read([990]) == []


def test_a_hole_among_many_slices_writes_their_page_anew() -> None:
    paged = Shelved()
    paged.append(list(range(1000)))
    paged.write()
    paged.drop([500])
    store = paged.write()
    assert len(store.puts) == 1 and len(store.dropped) == 1
    paged.restart()
    assert paged.cells.height == 999


def test_a_merged_tier_drops_the_pages_of_its_parts() -> None:
    paged = Shelved()
    for turn in range(8):
        paged.append([0, 1], turn)
        paged.write()
    assert len(paged.cells.runs) == 1 and len(paged.store.pages) == 1


def test_memory_is_let_go_of_oldest_first_and_fetched_again() -> None:
    paged = Shelved()
    paged.append([0] * 20_000)
    paged.append([0] * 200)
    paged.write()
    paged.evict(keep=100_000)
    held = [[part.memory for part in run.parts] for run in paged.cells.runs]
    assert held[0] == [0] and held[1][0] > 0
    assert sum(part.height for part in paged.read([0])) == 20_200 and len(paged.store.got) == 1


def test_what_is_not_in_pages_yet_is_never_let_go_of() -> None:
    paged = Shelved()
    paged.append([0] * 100)
    paged.write()
    paged.append([0] * 10)
    paged.evict()
    assert [run.parts[0].memory > 0 for run in paged.cells.runs] == [False, True]


def test_a_page_of_any_rows_is_at_most_about_a_mebibyte() -> None:
    rng = np.random.default_rng(1)
    long = [rng.integers(0, 1 << 60, 30_000) if i % 100 == 0 else np.array([1]) for i in range(1000)]
    paged = Shelved()
    cells = pl.DataFrame({SLICE: np.repeat([1, 2], 500), "all": pl.Series(long, dtype=pl.List(pl.Int64))})
    paged.cells = paged.cells.append(cells, lambda many: many)
    assert max(paged.write().puts) <= PAGE_BYTES * 5 // 4
    paged.restart()
    assert paged.read([1, 2])[0].equals(cells)


def test_pages_are_only_fetched_while_a_store_is_lent() -> None:
    paged = Shelved()
    paged.append([0])
    paged.write()
    paged.restart()
    with pytest.raises(ev.DataError, match=r"Page 1 of the state is needed, but no page store is open"):
        paged.cells.read(np.array([0]))
