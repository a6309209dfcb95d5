"""Files of a checkpoint that are replaced together: staged, then announced by a journal, then installed.

Until the journal exists, the checkpoint is unchanged, and staged files are only leftovers. From then on the staged
files count: the next command or query that opens the checkpoint finishes the installation. Each of its steps can be
repeated.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eventide._paths import sync
from eventide.errors import DataError, PlanError
from eventide.spark.storage import LocalStorage, Storage

FOLDER = "eventide/rescale"
JOURNAL = f"{FOLDER}/journal.json"
_LOCK = "eventide/rescale.lock"


class Replacement:
    """One attempt to replace files of a checkpoint. Its directory has a name of its own.

    Spark may outlive a killed command for a moment, and must not write into the files of the next attempt.
    """

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self._attempt = uuid.uuid4().hex
        directory = checkpoint / FOLDER / self._attempt
        self.staged = directory / "new"
        """The new files, under the names that they will have in the checkpoint."""
        self.work = directory / "work"
        """A directory for temporary files."""
        self.staged.mkdir(parents=True)
        self.work.mkdir()

    def copy(self, *names: str) -> None:
        """Stage copies of files of the checkpoint, which may then be changed."""
        for name in names:
            target = self.staged / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.checkpoint / name, target)

    def install(self, names: Sequence[str], *, delete: Sequence[str] = (), about: Mapping[str, Any]) -> None:
        """Make the staged files and directories those of the checkpoint, and delete others.

        ``about`` is what ``settle`` returns if another process finishes the installation.
        """
        _sync_tree(self.staged)
        journal = {"attempt": self._attempt, "install": list(names), "delete": list(delete), "about": dict(about)}
        LocalStorage(self.checkpoint).replace(JOURNAL, json.dumps(journal, indent=2).encode())
        _finish(self.checkpoint)


@contextmanager
def exclusive(checkpoint: Path) -> Iterator[None]:
    """Hold the right to replace files of a checkpoint. The operating system releases it when the process ends."""
    try:
        import fcntl
    except ImportError:  # files cannot be locked on this system
        yield
        return
    path = checkpoint / _LOCK
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PlanError(
                f"The state of the checkpoint {str(checkpoint)!r} is being rescaled by another process. Wait until it "
                "has finished."
            ) from None
        yield


def settle(checkpoint: Path) -> dict[str, Any] | None:
    """Finish an interrupted installation and return what it was about, or delete what another attempt has left.

    Call it before anything else is read of a checkpoint that is going to be used.
    """
    if not (checkpoint / FOLDER).is_dir():
        return None
    with exclusive(checkpoint):
        return settle_exclusively(checkpoint)


def settle_exclusively(checkpoint: Path) -> dict[str, Any] | None:
    """Do what ``settle`` does, in a process that has the exclusive right."""
    if (checkpoint / JOURNAL).is_file():
        return _finish(checkpoint)
    _delete(checkpoint / FOLDER)
    return None


def check_settled(storage: Storage) -> None:
    """Reject a checkpoint that is between two states, for a reader that changes nothing."""
    if storage.exists(JOURNAL):
        raise DataError(
            f"The new state of the checkpoint {storage.location} is complete, and its files are not all in place: "
            "eventide rescale is at work, or was interrupted. Run it again, or start the query; both finish it."
        )


def _finish(checkpoint: Path) -> dict[str, Any]:
    journal = json.loads((checkpoint / JOURNAL).read_text(encoding="utf-8"))
    attempt = checkpoint / FOLDER / journal["attempt"]
    for number, name in enumerate(journal["install"]):
        staged, target = attempt / "new" / name, checkpoint / name
        if not staged.exists():
            continue  # in place already
        if staged.is_dir() and target.exists():
            _move(target, attempt / "old" / str(number))  # a directory replaces only an empty one
        _delete(target.with_name(f".{target.name}.crc"))  # Hadoop's checksum of the old content
        _move(staged, target)
    for name in journal["delete"]:
        _delete(checkpoint / name)
    _delete(checkpoint / JOURNAL)
    _delete(checkpoint / FOLDER)
    about: dict[str, Any] = journal["about"]
    return about


def _move(path: Path, target: Path) -> None:
    if path.is_dir() and target.is_dir():
        _delete(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    path.replace(target)
    sync(target.parent)


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _sync_tree(directory: Path) -> None:
    """Flush all files to disk: the journal must not outlive what it refers to."""
    for place, _, files in os.walk(directory):
        for name in files:
            sync(Path(place) / name)
        sync(Path(place))
