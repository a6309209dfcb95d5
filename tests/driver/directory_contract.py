"""What a storage promises on a file system that Spark uses, too. Import it like ``storage_contract``."""

from __future__ import annotations

from collections.abc import Callable

from eventide.spark.storage import DirectoryStorage

Open = Callable[[], DirectoryStorage]


def test_a_file_moves_over_another(opened: Open) -> None:
    files = opened()
    for name, body in (("new/offsets/7", b"new"), ("offsets/7", b"a longer old text"), ("offsets/8", b"stays")):
        files.create(name, [body])
    files.move("new/offsets/7", "offsets/7")
    assert opened().read("offsets/7") == b"new" and files.read("offsets/8") == b"stays"
    assert not files.exists("new/offsets/7")


def test_a_folder_moves_with_all_its_files(opened: Open) -> None:
    files = opened()
    for name in ("new/state/0/1/a", "new/state/0/.hidden", "new/state/b"):
        files.create(name, [name.encode()])
    files.move("new/state", "deep/in/state")
    assert list(files.walk("deep/in/state")) == ["0/.hidden", "0/1/a", "b"] and list(files.walk("new")) == []
    assert files.read("deep/in/state/0/1/a") == b"new/state/0/1/a" and not files.exists("new/state")
    assert files.create("new/state/b", [b"again"])


def test_what_is_removed_is_gone_and_can_be_created_again(opened: Open) -> None:
    files = opened()
    for name in ("state/0/a", "state/b", "state2"):
        files.create(name, [b"x"])
    for name in ("state", "state2", "nowhere"):
        files.remove(name)
    assert list(files.walk("state")) == list(files.walk("nowhere")) == [] and not files.exists("state2")
    assert files.create("state/0/a", [b"again"]) and files.read("state/0/a") == b"again"


def test_a_folder_is_a_storage_with_an_address_below(opened: Open) -> None:
    files = opened()
    below = files.below("new/state")
    assert below.create("0/a", [b"x"]) and files.read("new/state/0/a") == b"x"
    assert below.address == f"{files.address}/new/state" and ":/" in files.address


def test_a_folder_that_something_else_has_written_is_made_durable(opened: Open) -> None:
    files = opened()
    files.create("state/0/a", [b"x"])
    files.sync("state")
    files.sync("state/0/a")
