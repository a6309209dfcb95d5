"""Files of a checkpoint that are replaced together: a crash before any step leaves the old files or the new ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import eventide as ev
from eventide.spark.replacement import FOLDER, Replacement, check_settled, exclusive, is_between, settle
from eventide.spark.storage import LocalStorage

OLD = {
    "state/0/a": "old",
    "state/0/b": "old",
    "offsets/7": "old",
    "offsets/.7.crc": "checksum",
    "eventide/plan.json": "old",
    "eventide/commits/7": "old",
    "eventide/control/drain.json": "applied",
    "sources/0/0": "stays",
}
NEW = {"state/0/a": "new", "state/1/a": "new", "offsets/7": "new", "eventide/plan.json": "new", "sources/0/0": "stays"}


def write(place: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)


def files_in(checkpoint: Path) -> dict[str, str]:
    """The files of a checkpoint, without the lock and without journals."""
    files = [file for file in checkpoint.rglob("*") if file.is_file() and file.name != "rescale.lock"]
    journals = list((checkpoint / FOLDER).glob("*.json"))
    return {str(file.relative_to(checkpoint)): file.read_text() for file in files if file not in journals}


def replace_files(checkpoint: Path) -> None:
    replacement = Replacement(LocalStorage(checkpoint))
    replacement.copy("offsets/7")
    write(Path(replacement.staged.location), {name: text for name, text in NEW.items() if text == "new"})
    delete = ["eventide/commits", "eventide/control/drain.json", "eventide/control/none.json"]
    replacement.install(["offsets/7", "eventide/plan.json"], folders=["state"], delete=delete, about={"buckets": [2]})


class Crash(BaseException):
    """The end of a process."""


class Fate:
    """Counts the steps that change files, and crashes before one of them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.steps = 0
        self.last = 1_000
        for name in ("move", "remove", "replace", "create"):
            patch.setattr(LocalStorage, name, self._counted(getattr(LocalStorage, name)))

    def _counted(self, function: Any) -> Any:
        def step(*arguments: Any) -> Any:
            if self.steps >= self.last:
                raise Crash
            self.steps += 1
            return function(*arguments)

        return step


@pytest.fixture
def fate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fate]:
    yield Fate(monkeypatch)


def test_files_are_replaced_and_deleted_together(tmp_path: Path) -> None:
    write(tmp_path, OLD)
    replace_files(tmp_path)
    assert files_in(tmp_path) == NEW and settle(LocalStorage(tmp_path)) is None


def test_a_crash_before_any_step_leaves_the_old_files_or_the_new_ones(tmp_path: Path, fate: Fate) -> None:
    write(tmp_path / "whole", OLD)
    replace_files(tmp_path / "whole")
    steps, outcomes = fate.steps, []
    assert steps > 8
    for last in range(steps):
        checkpoint = tmp_path / str(last)
        write(checkpoint, OLD)
        fate.steps, fate.last = 0, last
        with pytest.raises(Crash):
            replace_files(checkpoint)
        is_switched = is_between(LocalStorage(checkpoint))
        for second in range(3):  # the process that finishes it crashes, too
            fate.steps, fate.last = 0, second
            try:
                settle(LocalStorage(checkpoint))
            except Crash:
                assert is_switched or (checkpoint / FOLDER).exists()
        fate.steps, fate.last = 0, 1_000
        settle(LocalStorage(checkpoint))
        observed = files_in(checkpoint)
        assert observed in (OLD, NEW)
        outcomes.append(observed == NEW)
    assert outcomes == sorted(outcomes) and set(outcomes) == {False, True}


def test_what_was_interrupted_is_known_when_it_is_finished(tmp_path: Path, fate: Fate) -> None:
    write(tmp_path, OLD)
    fate.last = 3
    with pytest.raises(Crash):
        replace_files(tmp_path)
    with pytest.raises(ev.DataError, match="Run it again, or start the query"):
        check_settled(LocalStorage(tmp_path))
    fate.last = 1_000
    assert settle(LocalStorage(tmp_path)) == {"buckets": [2]}
    check_settled(LocalStorage(tmp_path))
    assert files_in(tmp_path) == NEW


def test_two_processes_never_replace_files_at_once(tmp_path: Path) -> None:
    write(tmp_path, OLD)
    Replacement(LocalStorage(tmp_path))
    with exclusive(LocalStorage(tmp_path)), pytest.raises(ev.PlanError, match="is being rescaled by another process"):
        settle(LocalStorage(tmp_path))
    assert settle(LocalStorage(tmp_path)) is None and files_in(tmp_path) == OLD


def test_an_attempt_that_was_believed_dead_changes_nothing_when_it_returns(tmp_path: Path) -> None:
    files = LocalStorage(tmp_path)
    write(tmp_path, OLD)
    stalled = Replacement(files)
    stalled.copy("offsets/7")
    assert settle(files) is None
    write(Path(stalled.staged.location), {"offsets/7": "new"})
    with pytest.raises(ev.PlanError, match="This command has changed nothing"):
        stalled.install(["offsets/7"], about={})
    stalled.discard()
    assert files_in(tmp_path) == OLD and settle(files) is None
    replace_files(tmp_path)
    assert files_in(tmp_path) == NEW


def test_of_two_attempts_without_a_lock_the_first_journal_counts(tmp_path: Path) -> None:
    files = LocalStorage(tmp_path)
    write(tmp_path, OLD)
    first, second = Replacement(files), Replacement(files)
    for attempt, text in ((first, "first"), (second, "second")):
        attempt.staged.replace("offsets/7", text.encode())
    second.install(["offsets/7"], about={"by": "second"})
    with pytest.raises(ev.PlanError, match="This command has changed nothing"):
        first.install(["offsets/7"], about={"by": "first"})
    first.discard()
    assert files_in(tmp_path)["offsets/7"] == "second"


def test_a_process_that_returns_into_a_finished_installation_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = LocalStorage(tmp_path)
    write(tmp_path, OLD)
    remove, waiting = LocalStorage.remove, [True]

    def overtake(storage: LocalStorage, name: str) -> None:
        remove(storage, name)
        if waiting and name == "state":
            waiting.clear()
            assert settle(files) == {"buckets": [2]}  # another process finishes, and its query goes on
            write(tmp_path, {"state/0/next": "later", "eventide/commits/8": "later"})

    monkeypatch.setattr(LocalStorage, "remove", overtake)
    replace_files(tmp_path)
    assert files_in(tmp_path) == NEW | {"state/0/next": "later", "eventide/commits/8": "later"}
    assert settle(files) is None


def test_only_the_last_journals_stay(tmp_path: Path) -> None:
    for _ in range(12):
        write(tmp_path, OLD)
        replace_files(tmp_path)
        settle(LocalStorage(tmp_path))
    assert sorted(int(file.stem) for file in (tmp_path / FOLDER).iterdir()) == list(range(5, 13))
