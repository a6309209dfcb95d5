"""Where the files of a checkpoint are stored: a small contract, and the local file system.

Nearly all files are immutable: they are created once, completely or not at all, and later deleted. A name that exists
is never created again, which is what fences two drivers of one checkpoint. The few files that change are replaced as a
whole.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from eventide._paths import make_directory, sync
from eventide.spark.errors import not_exclusive

RECORDS = "eventide/commits"
"""The folder of the commit records."""

_HIDDEN = (".", "_")  # first characters of names that are not listed: incomplete files, and markers

_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{32}")

_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)


class Storage(Protocol):
    """A directory of files. Names are relative to it and may contain slashes."""

    @property
    def location(self) -> str:
        """The directory, for messages."""
        ...

    def create(self, name: str, pieces: Sequence[bytes]) -> bool:
        """Create a file durably. Return False, and change nothing, if the name exists.

        A store that repeats requests on its own cannot always tell who created a file. So a file that holds exactly
        these bytes may count as created by this call: two writers never create a name with the same bytes.
        """
        ...

    def replace(self, name: str, body: bytes) -> None:
        """Create or replace a file. A reader sees all of the new file or all of the old one."""
        ...

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return bytes of a file; a negative offset counts from its end. Raise FileNotFoundError if there is none."""
        ...

    def exists(self, name: str) -> bool:
        """Return whether there is a file of that name."""
        ...

    def list(self, folder: str) -> list[str]:
        """Return the names of the files in a folder, without the folder; none if there is no such folder.

        Hidden names are left out. They begin with a dot or an underscore.
        """
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Delete files; names that do not exist are ignored."""
        ...

    def delete_unfinished(self, folder: str) -> None:
        """Delete the hidden files in a folder that writers have left which ended in the middle of ``create``.

        A writer that is still alive fails to create its file. So the caller has fenced all others.
        """
        ...

    def sync(self, name: str) -> None:
        """Make a file, or all files below a folder, durable that something else has written."""
        ...


class DirectoryStorage(Storage, Protocol):
    """A storage on a file system that Spark uses, too: it has folders, whose files can be moved together."""

    @property
    def address(self) -> str:
        """The directory with its scheme, as Spark opens it."""
        ...

    def below(self, folder: str) -> DirectoryStorage:
        """Return a folder as a storage."""
        ...

    def walk(self, folder: str) -> Sequence[str]:
        """Return the names of all files below a folder, hidden ones too, without the folder."""
        ...

    def move(self, source: str, target: str) -> None:
        """Move a file over another, or a folder to a name that does not exist.

        A file appears as a whole. A folder may appear file by file: an interrupted move is repeated, and continues.
        """
        ...

    def remove(self, name: str) -> None:
        """Delete a file, or a folder with its files; nothing if it does not exist."""
        ...


class LocalStorage:
    """A directory of this machine. A file appears under its name by a hard link, once all its bytes are on disk.

    With ``single_writer`` a file system without hard links will do: the name is looked up, then the file renamed.
    """

    def __init__(self, directory: str | Path, *, single_writer: bool = False) -> None:
        self._directory = Path(directory)
        self._single_writer = single_writer
        self._folders: set[Path] = set()

    @property
    def location(self) -> str:
        """The directory."""
        return str(self._directory)

    def create(self, name: str, pieces: Sequence[bytes]) -> bool:
        """Write a temporary file, flush it, and link it to its name."""
        path = self._directory / name
        unfinished = self._write(path, pieces)
        try:
            created = self._link(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)
        if created:
            sync(path.parent)
        return created

    def replace(self, name: str, body: bytes) -> None:
        """Write a temporary file, flush it, and rename it."""
        path = self._directory / name
        self._write(path, [body]).replace(path)
        sync(path.parent)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Read a range."""
        with (self._directory / name).open("rb") as file:
            # Python allocates what is asked for, and a damaged length may ask for anything.
            start, end = bounds(os.fstat(file.fileno()).st_size, offset, length)
            file.seek(start)
            return file.read(max(0, end - start))

    def exists(self, name: str) -> bool:
        """Look the name up."""
        return (self._directory / name).exists()

    def list(self, folder: str) -> list[str]:
        """List a folder without hidden files."""
        return visible(self._entries(folder))

    def delete(self, names: Iterable[str]) -> None:
        """Delete files."""
        for name in names:
            (self._directory / name).unlink(missing_ok=True)

    def delete_unfinished(self, folder: str) -> None:
        """Delete what ``create`` has not linked to its name."""
        self.delete(f"{folder}/{name}" for name in unfinished(self._entries(folder)))

    def sync(self, name: str) -> None:
        """Flush a file, or all files below a folder, and the entries of their directories."""
        path = self._directory / name
        for folder, _, names in os.walk(path):
            for file in names:
                sync(Path(folder) / file)
            sync(Path(folder))
        if path.is_file():
            sync(path)
        sync(path.parent)

    def _entries(self, folder: str) -> Sequence[str]:
        try:
            return os.listdir(self._directory / folder)  # noqa: PTH208
        except FileNotFoundError:
            return []

    @property
    def address(self) -> str:
        """The path with its scheme. Nothing is escaped, as Spark expects it."""
        return f"file:{self._directory.absolute()}"

    def below(self, folder: str) -> LocalStorage:
        """Return a folder as a storage."""
        return LocalStorage(self._directory / folder, single_writer=self._single_writer)

    def walk(self, folder: str) -> Sequence[str]:
        """Walk a folder."""
        path = self._directory / folder
        return sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())

    def move(self, source: str, target: str) -> None:
        """Rename a file or a folder. Hadoop's checksum of the old content is deleted."""
        path = self._directory / target
        make_directory(path.parent)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        (self._directory / source).replace(path)
        self._folders.clear()
        sync(path.parent)

    def remove(self, name: str) -> None:
        """Delete a file or a tree."""
        path = self._directory / name
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
            self._folders.clear()
        else:
            path.unlink(missing_ok=True)

    def _write(self, path: Path, pieces: Sequence[bytes]) -> Path:
        """Write a hidden file next to a path, durably; nothing is left of it after an error."""
        self._make_folder(path.parent)
        unfinished = path.parent / hidden_name(path.name)
        try:
            with unfinished.open("xb", buffering=0) as out:
                for piece in _joined(pieces):
                    view = memoryview(piece)
                    while view:
                        view = view[out.write(view) :]
                os.fsync(out.fileno())
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        return unfinished

    def _link(self, unfinished: Path, path: Path) -> bool:
        try:
            os.link(unfinished, path)
        except FileExistsError:
            return False
        except OSError as cause:
            if cause.errno not in _NO_HARD_LINKS:
                raise
            if not self._single_writer:
                raise not_exclusive(self.location) from cause
            if path.exists():
                return False
            unfinished.rename(path)
        return True

    def _make_folder(self, folder: Path) -> None:
        """Create a folder durably, once per process."""
        if folder in self._folders:
            return
        make_directory(folder)
        self._folders.add(folder)


def replace_logged(storage: Storage, name: str, text: str) -> None:
    """Replace a small file that Spark has written, with the checksum that Hadoop may have left next to it."""
    folder, _, last = name.rpartition("/")
    storage.delete([f"{folder}/.{last}.crc" if folder else f".{last}.crc"])
    storage.replace(name, text.encode())


def read_text(storage: Storage, name: str) -> str | None:
    """Return the text of a file; None if there is none."""
    try:
        return storage.read(name).decode()
    except FileNotFoundError:
        return None


def bounds(size: int, offset: int, length: int | None) -> tuple[int, int]:
    """Return where a range starts and ends within a file.

    >>> bounds(10, 2, 3), bounds(10, -4, 2), bounds(10, 8, None), bounds(10, 12, 5)
    ((2, 5), (6, 8), (8, 10), (12, 10))
    """
    start = max(0, size + offset) if offset < 0 else offset
    return start, size if length is None else min(size, start + length)


def visible(paths: Iterable[str]) -> list[str]:
    """Return the names at the ends of paths, without hidden names."""
    names = [path.rstrip("/").rpartition("/")[2] for path in paths]
    return [name for name in names if name and not name.startswith(_HIDDEN)]


def hidden_name(name: str) -> str:
    """Return a unique name for a file while it is written.

    >>> unfinished([hidden_name("17")]) != [], unfinished([".17.crc", "17"])
    (True, [])
    """
    return f".{name}.{uuid.uuid4().hex}"


def unfinished(paths: Iterable[str]) -> list[str]:
    """Return the names at the ends of paths of files that were not completely written."""
    return [name for path in paths if _UNFINISHED.fullmatch(name := path.rpartition("/")[2])]


def _joined(pieces: Sequence[bytes], limit: int = 1 << 20) -> Iterable[bytes]:
    """Small pieces together: each write is a system call."""
    return [b"".join(pieces)] if sum(map(len, pieces)) <= limit else pieces
