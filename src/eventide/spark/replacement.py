"""Files of a checkpoint that are replaced together: staged, then announced by a journal, then installed.

Until the journal exists, the checkpoint is unchanged, and staged files are only leftovers. From then on the staged
files count: the next command or query that opens the checkpoint finishes the installation. Each of its steps can be
repeated.

Journals are numbered, and each is created exclusively: by the attempt whose files it announces, or by a later process,
which thereby abandons that attempt. So an attempt on a machine that was believed dead never becomes valid afterwards.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eventide.errors import DataError, PlanError
from eventide.spark.storage import DirectoryStorage, LocalStorage, Storage

FOLDER = "eventide/rescale"
_LOCK = "eventide/rescale.lock"
_JOURNAL = ".json"
_RETAINED = 8  # journals; a process that has stood still through more of them may create an old number again

# The phases of an installation, as the journal names them.
_ABANDONED = "abandoned"
_REMOVE = "remove"  # delete what is outdated, and folders that are replaced
_MOVE = "move"  # move the staged files to their names
_DONE = "done"


class Replacement:
    """One attempt to replace files of a checkpoint. Its directory has a name of its own.

    Spark may outlive a killed command for a moment, and must not write into the files of the next attempt.
    """

    def __init__(self, files: DirectoryStorage) -> None:
        self._files = files
        self._number = _newest(files) + 1
        self._attempt = f"{self._number}-{uuid.uuid4().hex}"
        # A store that cannot create files exclusively is rejected here, and not after the state was written.
        files.create(f"{FOLDER}/{self._attempt}/attempt", [self._attempt.encode()])
        self.staged = files.below(f"{FOLDER}/{self._attempt}/new")
        """The new files, under the names that they will have in the checkpoint."""
        self.work = files.below(f"{FOLDER}/{self._attempt}/work")
        """A directory for temporary files."""

    def copy(self, *names: str) -> None:
        """Stage copies of files of the checkpoint, which may then be changed."""
        for name in names:
            self.staged.replace(name, self._files.read(name))

    def adopt(self, name: str) -> None:
        """Stage a folder of temporary files under its last name."""
        folder = f"{FOLDER}/{self._attempt}"
        self._files.move(f"{folder}/work/{name}", f"{folder}/new/{name.rpartition('/')[2]}")

    def install(
        self, names: Sequence[str], *, folders: Sequence[str] = (), delete: Sequence[str] = (), about: Mapping[str, Any]
    ) -> None:
        """Make the staged ``names`` and ``folders`` those of the checkpoint, and delete others.

        ``about`` is what ``settle`` returns if another process finishes the installation.
        """
        self._files.sync(f"{FOLDER}/{self._attempt}/new")  # the journal must not outlive what it refers to
        journal = {
            "phase": _REMOVE,
            "attempt": self._attempt,
            "remove": [*folders, *delete],
            "move": [*folders, *names],
            "about": dict(about),
        }
        if not self._files.create(_journal(self._number), [_text(journal)]):
            raise PlanError(
                f"Another command, or a start of the query, has used the checkpoint {self._files.location!r} while its "
                "state was rescaled. This command has changed nothing. Stop the query, then rescale its state."
            )
        _finish(self._files, self._number)

    def discard(self) -> None:
        """Delete the staged files."""
        self._files.remove(f"{FOLDER}/{self._attempt}")


@contextmanager
def exclusive(files: Storage) -> Iterator[None]:
    """Hold the right to replace files of a checkpoint on this machine; the operating system releases it at the end.

    For other checkpoints it does nothing: of several attempts, one creates the journal.
    """
    try:
        import fcntl
    except ImportError:  # files cannot be locked on this system
        yield
        return
    if not isinstance(files, LocalStorage):
        yield
        return
    path = Path(files.location) / _LOCK
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PlanError(
                f"The state of the checkpoint {files.location!r} is being rescaled by another process. Wait until it "
                "has finished."
            ) from None
        yield


def settle(files: DirectoryStorage) -> dict[str, Any] | None:
    """Finish an interrupted installation and return what it was about, or delete what another attempt has left.

    Call it before anything else is read of a checkpoint that is going to be used.
    """
    if not files.list(FOLDER):
        return None
    with exclusive(files):
        return settle_exclusively(files)


def settle_exclusively(files: DirectoryStorage) -> dict[str, Any] | None:
    """Do what ``settle`` does, in a process that has the exclusive right."""
    newest, attempts = _newest(files), _attempts(files)
    if attempts and max(attempts) > newest:  # its process has ended, or loses: the journal of its number is taken
        newest += 1
        files.create(_journal(newest), [_text({"phase": _ABANDONED, "by": uuid.uuid4().hex})])
    about = _finish(files, newest) if newest else None
    for number, names in attempts.items():
        if number <= newest:
            for name in names:
                files.remove(f"{FOLDER}/{name}")
    files.delete(_journal(number) for number in _numbers(files) if number <= newest - _RETAINED)
    return about


def check_settled(storage: Storage) -> None:
    """Reject a checkpoint that is between two states, for a reader that changes nothing."""
    if is_between(storage):
        raise DataError(
            f"The new state of the checkpoint {storage.location} is complete, and its files are not all in place: "
            "eventide rescale is at work, or was interrupted. Run it again, or start the query; both finish it."
        )


def is_between(storage: Storage) -> bool:
    """Return whether a new state is complete and not installed yet."""
    newest = _newest(storage)
    return bool(newest) and _read(storage, newest)["phase"] in (_REMOVE, _MOVE)


def _finish(files: DirectoryStorage, number: int) -> dict[str, Any] | None:
    """Install what a journal announces. Return what it is about; None if there was nothing to do.

    Another machine may do the same, so each step begins with a look at the phase.
    """
    journal = _read(files, number)
    if journal["phase"] in (_ABANDONED, _DONE):
        return None
    for name in journal["remove"]:
        if _read(files, number)["phase"] == _REMOVE:
            files.remove(name)
    if _read(files, number)["phase"] == _REMOVE:
        files.replace(_journal(number), _text(journal | {"phase": _MOVE}))
    staged = f"{FOLDER}/{journal['attempt']}/new"
    for name in journal["move"]:
        if _read(files, number)["phase"] == _MOVE and files.exists(f"{staged}/{name}"):  # else it is in place already
            try:
                files.move(f"{staged}/{name}", name)
            except FileNotFoundError:
                if files.exists(f"{staged}/{name}"):
                    raise
    files.replace(_journal(number), _text({"phase": _DONE, "about": journal["about"]}))
    files.remove(f"{FOLDER}/{journal['attempt']}")
    about: dict[str, Any] = journal["about"]
    return about


def _journal(number: int) -> str:
    return f"{FOLDER}/{number}{_JOURNAL}"


def _text(journal: Mapping[str, Any]) -> bytes:
    return json.dumps(journal, indent=2).encode()


def _read(storage: Storage, number: int) -> dict[str, Any]:
    journal: dict[str, Any] = json.loads(storage.read(_journal(number)))
    return journal


def _newest(storage: Storage) -> int:
    return max(_numbers(storage), default=0)


def _numbers(storage: Storage) -> list[int]:
    """Return the numbers of all journals."""
    names = (name.removesuffix(_JOURNAL) for name in storage.list(FOLDER) if name.endswith(_JOURNAL))
    return [int(name) for name in names if name.isdecimal()]


def _attempts(storage: Storage) -> dict[int, list[str]]:
    """Return the directories of attempts by the number of their journal."""
    attempts: dict[int, list[str]] = {}
    for name in storage.list(FOLDER):
        number, dash, _ = name.partition("-")
        if dash and number.isdecimal():
            attempts.setdefault(int(number), []).append(name)
    return attempts
