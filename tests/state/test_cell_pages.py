"""Cells in pages, beside the same cells in memory: appended unread, fetched when their slices are asked for."""

from __future__ import annotations

from random import Random

import numpy as np
import polars as pl
import pytest

import eventide as ev
from eventide.state.cell_pages import CellForm, Known
from eventide.state.cells import Cells
from eventide.state.paging import LIMIT, Shelf, Writer
from tests.state.paged import Store, small_pages

SLICE = "__slice"
FORM = CellForm(SLICE)


def frame(slices: list[int], value: float = 1.0) -> pl.DataFrame:
    keys = np.arange(len(slices))
    return pl.DataFrame({"key": keys, SLICE: slices, "value": value + keys / 7}, schema_overrides={SLICE: pl.Int64})


def merge(cells: pl.DataFrame) -> pl.DataFrame:
    return cells.group_by("key", SLICE, maintain_order=True).agg(pl.col("value").sum())


class Shelved:
    """Cells and their pages."""

    def __init__(self) -> None:
        self.cells, self.store, self.shelf = Cells(SLICE), Store(), Shelf()
        self.known: Known | None = None
        self.head: dict[str, object] = {}
        self.next = 1

    def write(self, *, commit: bool = True) -> Store:
        store = self.store.copy()
        writer = Writer(store, self.next)
        with self.shelf.lend(store):
            head, known = FORM.write(self.cells, self.known, writer, self.shelf)
        writer.finish()
        assert set(store.pages) == {page.number for stored in known.values() for page in stored.all()}
        if commit:
            self.head, self.known, self.next, self.store = head, known, writer.next, store
        return store

    def restart(self) -> None:
        with self.shelf.lend(self.store):
            self.cells, self.known = FORM.read(self.head, self.shelf)

    def let_go(self, keep: int = 0) -> None:
        assert self.known is not None
        self.cells = FORM.let_go(self.cells, self.known, self.shelf, keep)

    def append(self, slices: list[int], value: float = 1.0) -> None:
        with self.shelf.lend(self.store):
            self.cells = self.cells.append(frame(slices, value), merge)

    def drop(self, slices: list[int]) -> None:
        self.cells = self.cells.drop(np.array(slices, np.int64))

    def read(self, slices: list[int]) -> list[pl.DataFrame]:
        with self.shelf.lend(self.store):
            return self.cells.read(np.array(slices, np.int64))


@pytest.mark.parametrize("seed", range(12))
def test_what_is_written_is_what_is_in_memory(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(seed)
    if seed % 3:
        small_pages(monkeypatch, limit=300 * seed, inline=rng.choice([1, 3, 100]))
    shelved, memory, low = Shelved(), Cells(SLICE), 0
    for turn in range(60):
        slices = [low + rng.randint(0, 9) for _ in range(rng.choice([0, 1, 5, 30]))]
        shelved.append(slices, turn)
        memory = memory.append(frame(slices, turn), merge)
        if rng.random() < 0.3:
            gone = [low] if rng.random() < 0.7 else rng.sample(range(low, low + 9), 3)
            shelved.drop(gone)
            memory = memory.drop(np.array(gone, np.int64))
            low += 1
        if rng.random() < 0.2:
            shelved.write(commit=False)
        if rng.random() < 0.8:
            shelved.write()
            happens = rng.choice(["nothing", "restart", "let go", "let go of some"])
            if happens == "restart":
                shelved.restart()
            elif happens != "nothing":
                shelved.let_go(0 if happens == "let go" else 500)
        assert shelved.cells.height == memory.height
        assert shelved.cells.slices(low + 5).tolist() == memory.slices(low + 5).tolist()
        first = rng.randint(low - 1, low + 9)
        wanted = list(range(first, first + 3))
        in_memory = memory.read(np.array(wanted, np.int64))
        assert [part.rows() for part in shelved.read(wanted)] == [part.rows() for part in in_memory]


def test_appending_and_writing_reads_nothing() -> None:
    shelved = Shelved()
    shelved.append([0] * 1000)
    shelved.write()
    shelved.restart()
    for _ in range(5):
        shelved.store.got.clear()
        shelved.append([0, 1, 2])
        store = shelved.write()
        assert shelved.store.got == [] and len(store.puts) == 1


def test_only_the_pages_of_the_slices_that_are_asked_for_are_fetched() -> None:
    shelved = Shelved()
    shelved.append(np.repeat(np.arange(10), 40_000).tolist())
    assert 10 <= len(shelved.write().puts) <= 20
    shelved.restart()
    (part,) = shelved.read([4])
    assert part.height == 40_000 and len(shelved.store.got) <= 2
    shelved.store.got.clear()
    shelved.read([4])
    assert shelved.store.got == []


def test_pages_are_cut_at_slices_where_that_fills_them() -> None:
    shelved = Shelved()
    shelved.append(np.repeat(np.arange(8), 30_000).tolist())
    shelved.write()
    assert shelved.known is not None
    (stored,) = shelved.known.values()
    assert [page.start for page in stored.pages] == list(range(0, 240_000, 30_000))


def test_pages_of_expired_slices_are_dropped_unread_and_others_stay() -> None:
    shelved = Shelved()
    shelved.append(np.repeat(np.arange(8), 30_000).tolist())
    shelved.write()
    first = min(shelved.store.pages)
    shelved.drop([0, 1, 2])
    store = shelved.write()
    assert store.dropped == [first, first + 1, first + 2] and store.puts == [] and store.got == []
    shelved.restart()
    assert shelved.cells.slices(100).tolist() == [3, 4, 5, 6, 7] and shelved.cells.height == 150_000


def test_a_page_that_is_partly_gone_stays_as_it_is_and_its_gone_rows_are_not_read() -> None:
    shelved = Shelved()
    shelved.append([0, 0, 1, 2, 2, 3])
    shelved.write()
    shelved.drop([0, 2])
    store = shelved.write()
    assert store.puts == [] and store.dropped == []
    shelved.restart()
    (part,) = shelved.read([0, 1, 2, 3])
    assert part[SLICE].to_list() == [1, 3] and shelved.cells.height == 2


def test_a_slice_that_comes_again_is_not_mixed_up_with_the_one_that_went() -> None:
    shelved = Shelved()
    shelved.append([0, 0, 1])
    shelved.write()
    shelved.drop([0])
    shelved.append([0], 50.0)
    shelved.write()
    shelved.restart()
    assert [part["value"].to_list() for part in shelved.read([0])] == [[50.0]]


def test_slices_that_are_gone_before_the_first_write_are_not_written() -> None:
    shelved = Shelved()
    shelved.append([0] * 50_000 + [1, 1, 2, 3])
    shelved.drop([0, 2])
    assert sum(shelved.write().puts) < 5000
    shelved.restart()
    (part,) = shelved.read([0, 1, 2, 3])
    assert part["key"].to_list() == [50_000, 50_001, 50_003]


def test_many_slices_have_a_page_of_their_own_that_is_written_once() -> None:
    shelved = Shelved()
    shelved.append(list(range(1000)))
    assert len(shelved.write().puts) == 2
    for last in (10, 500, 980):
        shelved.drop(list(range(last)))
        assert shelved.write().puts == []
        shelved.restart()
        assert shelved.cells.slices(2000).tolist() == list(range(last, 1000))
    shelved.drop([990])
    assert shelved.write().puts == [], "few slices are told in the head"
    shelved.restart()
    assert shelved.cells.height == 19 and shelved.read([990]) == []


def test_a_hole_among_many_slices_writes_their_page_anew() -> None:
    shelved = Shelved()
    shelved.append(list(range(1000)))
    shelved.write()
    shelved.drop([500])
    store = shelved.write()
    assert len(store.puts) == 1 and len(store.dropped) == 1
    shelved.restart()
    assert shelved.cells.height == 999


def test_a_merged_tier_drops_the_pages_of_its_parts() -> None:
    shelved = Shelved()
    for turn in range(8):
        shelved.append([0, 1], turn)
        shelved.write()
    assert len(shelved.cells.runs) == 1 and len(shelved.store.pages) == 1


def test_memory_is_let_go_of_oldest_first_and_fetched_again() -> None:
    shelved = Shelved()
    shelved.append([0] * 20_000)
    shelved.append([0] * 200)
    shelved.write()
    shelved.let_go(keep=100_000)
    held = [[piece.held for piece in run.pieces] for run in shelved.cells.runs]
    assert held[0] == [0] and held[1][0] > 0
    assert sum(part.height for part in shelved.read([0])) == 20_200 and len(shelved.store.got) == 1


def test_what_is_not_in_pages_yet_is_never_let_go_of() -> None:
    shelved = Shelved()
    shelved.append([0] * 100)
    shelved.write()
    shelved.append([0] * 10)
    shelved.let_go()
    assert [run.pieces[0].held > 0 for run in shelved.cells.runs] == [False, True]


def test_a_page_is_at_most_about_a_mebibyte_whatever_its_rows_are() -> None:
    rng = np.random.default_rng(1)
    long = [rng.integers(0, 1 << 60, 30_000) if i % 100 == 0 else np.array([1]) for i in range(1000)]
    shelved = Shelved()
    cells = pl.DataFrame({SLICE: np.repeat([1, 2], 500), "all": pl.Series(long, dtype=pl.List(pl.Int64))})
    shelved.cells = shelved.cells.append(cells, lambda many: many)
    assert max(shelved.write().puts) <= LIMIT * 5 // 4
    shelved.restart()
    assert shelved.read([1, 2])[0].equals(cells)


def test_pages_are_only_fetched_while_a_store_is_lent() -> None:
    shelved = Shelved()
    shelved.append([0])
    shelved.write()
    shelved.restart()
    with pytest.raises(ev.DataError, match=r"Page 1 of the state is needed, but no store is open"):
        shelved.cells.read(np.array([0]))
