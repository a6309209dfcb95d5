"""What every storage promises. A module that tests a storage imports these tests and defines the fixture ``opened``."""

from __future__ import annotations

from collections.abc import Callable
from threading import Barrier, Thread

import pytest

from eventide.spark.checkpoint_storage import check_exclusive
from eventide.spark.storage import Storage, read_text

Open = Callable[[], Storage]


def test_a_name_is_created_once(opened: Open) -> None:
    storage = opened()
    assert storage.create("a/b/1", [b"one", b"two"])
    assert not storage.create("a/b/1", [b"other"]) and not opened().create("a/b/1", [b"other"])
    assert storage.read("a/b/1") == opened().read("a/b/1") == b"onetwo"


def test_an_empty_file_exists(opened: Open) -> None:
    storage = opened()
    assert storage.create("a/1", []) and storage.exists("a/1") and storage.read("a/1") == b""


def test_what_is_not_there_is_not_found(opened: Open) -> None:
    storage = opened()
    assert not storage.exists("a/1") and storage.list("a") == [] and read_text(storage, "a/1") is None
    for range_ in [(0, None), (0, 5), (-5, 5)]:
        with pytest.raises(FileNotFoundError):
            storage.read("a/1", *range_)


@pytest.mark.parametrize(
    ("offset", "length", "body"),
    [
        (0, None, b"0123456789"),
        (3, 4, b"3456"),
        (3, None, b"3456789"),
        (-4, 2, b"67"),
        (-4, None, b"6789"),
        (-40, 2, b"01"),
        (8, 40, b"89"),
        (10, 4, b""),
        (40, 4, b""),
        (5, 0, b""),
    ],
)
def test_a_range_is_read(opened: Open, offset: int, length: int | None, body: bytes) -> None:
    storage = opened()
    storage.create("a/1", [b"0123", b"456789"])
    assert storage.read("a/1", offset, length) == body


def test_all_bytes_survive(opened: Open) -> None:
    body = bytes(range(256)) * 80_000  # more than one call of Java takes
    storage = opened()
    assert storage.create("a/1", [body[:1000], body[1000:]])
    assert storage.read("a/1") == body and storage.read("a/1", -1000, 500) == body[-1000:-500]


def test_a_folder_is_listed_without_hidden_names_and_other_folders(opened: Open) -> None:
    storage = opened()
    for name in ("a/1", "a/2.late.0.1", "b/1", "a/_marker", "a/.hidden"):
        assert storage.create(name, [b"x"])
    assert sorted(opened().list("a")) == ["1", "2.late.0.1"]


def test_names_that_do_not_exist_are_deleted_without_an_error(opened: Open) -> None:
    storage = opened()
    storage.create("a/1", [b"x"])
    storage.delete(["a/0", "a/1", "nowhere/2"])
    assert storage.list("a") == [] and not storage.exists("a/1")
    assert storage.create("a/1", [b"again"])


def test_a_file_is_replaced_as_a_whole(opened: Open) -> None:
    storage = opened()
    storage.replace("a/plan.json", b"a long first text")
    storage.replace("a/plan.json", b"two")
    assert opened().read("a/plan.json") == b"two" and storage.list("a") == ["plan.json"]


def test_complete_files_stay_when_unfinished_ones_are_deleted(opened: Open) -> None:
    storage = opened()
    storage.create("a/1", [b"one"])
    storage.create("a/1.panes.0.1", [b"one"])
    for folder in ("a", "nowhere"):
        storage.delete_unfinished(folder)
    assert sorted(storage.list("a")) == ["1", "1.panes.0.1"]


@pytest.mark.exclusive
def test_one_of_many_writers_wins(opened: Open) -> None:
    writers, rounds = 4, 5
    barrier = Barrier(writers)
    wins: list[list[int]] = [[] for _ in range(rounds)]

    def write(number: int) -> None:
        storage = opened()
        for turn in range(rounds):
            barrier.wait()
            if storage.create(f"a/{turn}", [bytes([number]) * 100_000]):
                wins[turn].append(number)

    threads = [Thread(target=write, args=(number,)) for number in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(winners) for winners in wins] == [1] * rounds
    assert [opened().read(f"a/{turn}") for turn in range(rounds)] == [bytes([w]) * 100_000 for (w,) in wins]
    assert sorted(opened().list("a")) == [str(turn) for turn in range(rounds)]


@pytest.mark.exclusive
def test_the_store_passes_the_test_at_the_start_of_a_query_and_nothing_is_left(opened: Open) -> None:
    storage = opened()
    check_exclusive(storage)
    assert storage.list("eventide") == []
