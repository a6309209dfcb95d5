"""Files of a checkpoint that are replaced together: a crash before any step leaves the old files or the new ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import eventide as ev
from eventide.spark import replacement as module
from eventide.spark.replacement import FOLDER, JOURNAL, Replacement, check_settled, exclusive, settle
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
    """The files of a checkpoint, without the lock."""
    files = [file for file in checkpoint.rglob("*") if file.is_file() and file.name != "rescale.lock"]
    return {str(file.relative_to(checkpoint)): file.read_text() for file in files}


def replace_files(checkpoint: Path) -> None:
    replacement = Replacement(checkpoint)
    replacement.copy("offsets/7")
    write(replacement.staged, {name: text for name, text in NEW.items() if text == "new"})
    delete = ["eventide/commits", "eventide/control/drain.json", "eventide/control/none.json"]
    replacement.install(["offsets/7", "state", "eventide/plan.json"], delete=delete, about={"buckets": [2]})


class Crash(BaseException):
    """The end of a process."""


class Fate:
    """Counts the steps that change files, and crashes before one of them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.steps = 0
        self.last = 1_000
        for owner, name in ((module, "_move"), (module, "_delete"), (LocalStorage, "replace")):
            patch.setattr(owner, name, self._counted(getattr(owner, name)))

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
    assert files_in(tmp_path) == NEW and settle(tmp_path) is None


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
        is_switched = (checkpoint / JOURNAL).exists()
        for second in range(3):  # the process that finishes it crashes, too
            fate.steps, fate.last = 0, second
            try:
                settle(checkpoint)
            except Crash:
                assert is_switched or (checkpoint / FOLDER).exists()
        fate.steps, fate.last = 0, 1_000
        settle(checkpoint)
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
    assert settle(tmp_path) == {"buckets": [2]}
    check_settled(LocalStorage(tmp_path))
    assert files_in(tmp_path) == NEW


def test_two_processes_never_replace_files_at_once(tmp_path: Path) -> None:
    write(tmp_path, OLD)
    Replacement(tmp_path)
    with exclusive(tmp_path), pytest.raises(ev.PlanError, match="is being rescaled by another process"):
        settle(tmp_path)
    assert settle(tmp_path) is None and files_in(tmp_path) == OLD
