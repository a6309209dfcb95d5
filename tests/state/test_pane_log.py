"""Panes in pages, compared with the table in memory: takes and puts in any order, with restarts and failed attempts."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import polars as pl
import pytest

from eventide.state import pane_log as pane_pages
from eventide.state.pages import PAGE_BYTES, PageReader, PageWriter
from eventide.state.pane_log import PaneCodec, StoredPanes
from eventide.state.pane_table import CLOCK, DUE, HASH, PaneTable, with_hashes
from tests.effort import examples
from tests.state.harness import Store, small_pages

CODEC = PaneCodec(("id",))
NEVER = (0, 0)


def panes(ids: list[int], text: str = "") -> pl.DataFrame:
    frame = pl.DataFrame({"id": ids, "text": [f"{text}{i}" for i in ids]}, schema={"id": pl.Int64, "text": pl.String})
    return with_hashes(frame.with_columns(pl.col("id").alias(DUE), pl.lit(None, pl.Int64).alias(CLOCK)), CODEC.by)


def hashes_of(ids: list[int]) -> pl.Series:
    return panes(ids)[HASH]


def content(table: PaneTable) -> list[tuple[int, str]]:
    observed = table.scan()
    return [] if observed is None else sorted(observed.select("id", "text").iter_rows())


class Log:
    """A table and its pages."""

    def __init__(self) -> None:
        self.table, self.store, self.reader = PaneTable(), Store(), PageReader()
        self.stored: StoredPanes | None = None
        self.head: dict[str, object] = {}
        self.next = 1

    def write(self, *, commit: bool = True) -> Store:
        store = self.store.copy()
        writer = PageWriter(store, self.next)
        with self.reader.attach(store):
            head, stored = CODEC.write(self.table, self.stored, writer, self.reader)
        writer.finish()
        assert set(store.pages) == {page.number for page in stored.all()}
        if commit:
            self.head, self.stored, self.next, self.store = head, stored, writer.next_page, store
        return store

    def read(self) -> None:
        with self.reader.attach(self.store):
            self.table, self.stored = CODEC.read(self.head, self.reader)

    def refresh(self, table: PaneTable, stored: StoredPanes) -> None:
        with self.reader.attach(self.store):
            self.table, self.stored = CODEC.refresh(table, stored, self.head, self.reader)

    def put(self, ids: list[int], text: str = "") -> None:
        self.table = self.table.put(panes(ids, text))

    def take(self, ids: list[int]) -> None:
        self.table, _ = self.table.take(hashes_of(ids), due=NEVER, clock=NEVER)


@pytest.mark.parametrize("seed", range(examples(12)))
def test_what_is_written_is_what_is_in_memory(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(seed)
    if seed % 3:
        small_pages(monkeypatch, limit=2000 + 400 * seed, small=rng.choice([1000, 3000, 8000]))
    log, model, born = Log(), dict[int, str](), 0
    copies: list[tuple[PaneTable, StoredPanes]] = []
    for turn in range(120):
        busy = rng.random() < 0.8
        gone = rng.sample(sorted(model), min(len(model), rng.randint(0, 12))) if model and busy else []
        if rng.random() < 0.03:
            gone = sorted(model)
        back = rng.sample(gone, rng.randint(0, len(gone)))
        new = list(range(born, born + rng.choice([0, 1, 2, 5, 20])))
        born += len(new)
        log.take(gone)
        log.put(back + new, f"{turn}-")
        model = {id_: text for id_, text in model.items() if id_ not in gone}
        model |= {id_: f"{turn}-{id_}" for id_ in back + new}
        assert content(log.table) == sorted(model.items())
        if rng.random() < 0.2:
            log.write(commit=False)
        if rng.random() < 0.8:
            log.write()
            assert log.stored is not None
            copies = [*copies[-20:], (log.table, log.stored)]
            if rng.random() < 0.15:
                log.read()
                assert content(log.table) == sorted(model.items())
            elif rng.random() < 0.3:
                log.refresh(*rng.choice(copies))
                assert content(log.table) == sorted(model.items())


def test_a_bundle_writes_what_it_touched_and_large_pages_stay() -> None:
    log = Log()
    log.put(list(range(200_000)), "x" * 20)
    log.write()
    before = set(log.store.pages)
    rng = np.random.default_rng(1)
    total = 0
    for turn in range(10):
        touched = rng.integers(0, 200_000, 1000).tolist()
        log.take(touched)
        log.put(sorted(set(touched)), f"{turn}")
        total += sum(log.write().puts)
    assert before <= set(log.store.pages)
    assert total < 10 * 1000 * 100


def test_taking_alone_writes_only_what_is_gone() -> None:
    log = Log()
    log.put(list(range(10_000)))
    log.write()
    log.take(list(range(0, 10_000, 100)))
    store = log.write()
    assert len(store.puts) == 1 and store.puts[0] < 1500 and not store.dropped
    log.read()
    assert len(content(log.table)) == 9_900


def test_who_catches_up_fetches_what_is_new() -> None:
    log = Log()
    log.put(list(range(200_000)), "x" * 20)
    log.write()
    assert log.stored is not None
    copy = log.table, log.stored
    for turn in range(5):
        log.take(list(range(turn, 1000, 3)))
        log.put(list(range(turn, 1000, 3)), f"{turn}-")
        log.write()
    observed, pages = content(log.table), len(log.store.pages)
    log.store = log.store.copy()
    log.refresh(*copy)
    assert content(log.table) == observed
    assert len(log.store.got) < pages and sum(len(log.store.pages[page]) for page in log.store.got) < 100_000


def test_nothing_new_writes_nothing() -> None:
    log = Log()
    log.put([1, 2, 3])
    log.write()
    assert log.write().puts == []


def test_a_merge_in_memory_is_not_written() -> None:
    log = Log()
    for turn in range(5):
        log.put(list(range(100 * turn, 100 * turn + 100)))
        log.write()
    assert len(log.table.runs) < 5 and len(log.store.pages) == 5
    merged = log.write()
    assert merged.puts == [] and merged.dropped == []


def test_small_pages_become_larger_ones() -> None:
    log = Log()
    most = 0
    for turn in range(300):
        log.put(list(range(10 * turn, 10 * turn + 10)))
        log.write()
        most = max(most, len(log.store.pages))
    assert most <= 30
    log.read()
    assert len(content(log.table)) == 3000


def test_pages_that_are_all_gone_are_dropped_unread() -> None:
    log = Log()
    log.put(list(range(50_000)), "y" * 50)
    log.write()
    assert len(log.store.pages) > 2
    log.take(list(range(50_000)))
    log.put([-1])
    store = log.write()
    assert len(log.store.pages) == 1 and store.got == []


def test_worn_pages_are_rewritten_so_that_the_store_follows_what_is_open() -> None:
    log = Log()
    log.put(list(range(100_000)), "z" * 30)
    log.write()
    full = sum(map(len, log.store.pages.values()))
    for turn in range(9):
        log.take(list(range(turn, 100_000, 10)))
        log.put([-1 - turn])
        log.write()
    assert sum(map(len, log.store.pages.values())) < full / 3
    log.read()
    assert len(content(log.table)) == 10_009


def test_pages_that_tell_what_is_gone_do_not_pile_up() -> None:
    log = Log()
    log.put(list(range(5000)))
    log.write()
    for turn in range(200):
        log.take([turn])
        log.write()
    assert len(log.store.pages) <= pane_pages._MAX_REMOVAL_PAGES + 1
    log.read()
    assert len(content(log.table)) == 4800


def test_ids_far_apart_are_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    small_pages(monkeypatch, small=10**6)
    log = Log()
    for turn in range(4):
        log.put([turn])
        log.table = replace(log.table, next_id=log.table.next_id + 2**33)
        log.write()
    log.take([2])
    log.write()
    log.read()
    assert [id_ for id_, _ in content(log.table)] == [0, 1, 3]


def test_a_page_is_at_most_about_a_mebibyte() -> None:
    log = Log()
    log.put(list(range(100_000)), "w" * 100)
    noise = np.random.default_rng(2).integers(33, 123, 500_000, dtype=np.uint8).tobytes().decode()
    log.put(list(range(100_000, 100_010)), noise)
    store = log.write()
    assert len(store.puts) > 5 and max(store.puts) <= PAGE_BYTES * 5 // 4


def test_a_manifest_of_another_table_is_rejected() -> None:
    first, other = Log(), Log()
    first.put([1, 2, 3])
    first.write()
    other.put([4])
    other.stored = first.stored
    with pytest.raises(Exception, match="The manifest belongs to another state"):
        other.write()
