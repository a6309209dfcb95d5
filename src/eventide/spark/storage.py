"""Where the files of a checkpoint are stored: a small contract, and the local file system.

Nearly all files are immutable: they are created once, completely or not at all, and later deleted. A name that exists
is never created again, which is what fences two drivers of one checkpoint. The few files that change are replaced as a
whole.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from eventide._paths import make_directory, sync
from eventide.spark.errors import not_exclusive

RECORDS = "eventide/commits"
"""The folder of the commit records."""

_HIDDEN = (".", "_")  # first characters of names that are not listed: incomplete files, and markers

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

    def sync(self, name: str) -> None:
        """Make a file durable that something else has written."""
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
        try:
            return visible(os.listdir(self._directory / folder))  # noqa: PTH208
        except FileNotFoundError:
            return []

    def delete(self, names: Iterable[str]) -> None:
        """Delete files."""
        for name in names:
            (self._directory / name).unlink(missing_ok=True)

    def sync(self, name: str) -> None:
        """Flush a file and the entry of its directory."""
        path = self._directory / name
        sync(path)
        sync(path.parent)

    def _write(self, path: Path, pieces: Sequence[bytes]) -> Path:
        """Write a hidden file next to a path, durably; nothing is left of it after an error."""
        self._make_folder(path.parent)
        unfinished = path.parent / f".{path.name}.{uuid.uuid4().hex}"
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


def replace_file(path: Path, text: str) -> None:
    """Replace a small file of a checkpoint on this machine durably: a reader sees the old content or the new one."""
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # Hadoop's checksum of the old content
    LocalStorage(path.parent).replace(path.name, text.encode())


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


def _joined(pieces: Sequence[bytes], limit: int = 1 << 20) -> Iterable[bytes]:
    """Small pieces together: each write is a system call."""
    return [b"".join(pieces)] if sum(map(len, pieces)) <= limit else pieces
