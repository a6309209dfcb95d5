"""Commit records in a store of the user: a store of obstore, or a file system of fsspec."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from eventide.errors import PlanError
from eventide.spark.errors import not_exclusive
from eventide.spark.storage import Storage, bounds, visible


def object_storage(store: Any, folder: str, *, single_writer: bool = False) -> Storage:
    """Return the storage of a folder in a store of obstore or a file system of fsspec."""
    if hasattr(store, "pipe_file"):
        return FsspecStorage(store, folder, single_writer=single_writer)
    if hasattr(store, "list_with_delimiter"):
        return ObstoreStorage(store, folder, single_writer=single_writer)
    raise PlanError(
        f"run(storage=) takes a store of obstore or a file system of fsspec, not {type(store).__name__}. "
        'For example: obstore.store.S3Store("bucket", prefix="queries").'
    )


class ObstoreStorage:
    """A folder of an obstore store. A file is created by one put that fails if there is an object."""

    def __init__(self, store: Any, folder: str = "", *, single_writer: bool = False) -> None:
        self._store = store
        self._prefix = f"{folder}/" if folder else ""
        self._single_writer = single_writer

    @property
    def location(self) -> str:
        """The store and the folder."""
        return f"{_name(self._store)}/{self._prefix}".rstrip("/")

    def create(self, name: str, pieces: Sequence[bytes]) -> bool:
        """Put an object unless there is one."""
        from obstore.exceptions import AlreadyExistsError, NotSupportedError, PreconditionError

        body = b"".join(pieces)
        try:
            self._store.put(self._prefix + name, body, mode="create", use_multipart=False)
        except (AlreadyExistsError, PreconditionError):
            return self.read(name) == body  # the client repeats a request whose answer was lost
        except (NotSupportedError, NotImplementedError) as cause:
            if not self._single_writer:
                raise not_exclusive(self.location) from cause
            if self.exists(name):
                return False
            self.replace(name, body)
        return True

    def replace(self, name: str, body: bytes) -> None:
        """Put an object."""
        self._store.put(self._prefix + name, body, use_multipart=False)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Get a range."""
        path = self._prefix + name
        if offset == 0 and length is None:
            return bytes(self._store.get(path).bytes())
        size = self._store.head(path)["size"]  # a range beyond the end is an error in some stores
        start, end = bounds(size, offset, length)
        return bytes(self._store.get_range(path, start=start, end=end)) if start < end else b""

    def exists(self, name: str) -> bool:
        """Look the object up."""
        try:
            self._store.head(self._prefix + name)
        except FileNotFoundError:
            return False
        return True

    def list(self, folder: str) -> list[str]:
        """List the objects of a folder."""
        return visible(entry["path"] for entry in self._store.list_with_delimiter(self._prefix + folder)["objects"])

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects."""
        for name in names:
            try:
                self._store.delete(self._prefix + name)
            except FileNotFoundError:
                continue

    def delete_unfinished(self, folder: str) -> None:
        """Do nothing: an object has no other name while it is written."""

    def sync(self, name: str) -> None:
        """Do nothing: an object is durable when its put returns."""


class FsspecStorage:
    """A folder of an fsspec file system. A file is created with ``mode="create"``."""

    def __init__(self, files: Any, folder: str = "", *, single_writer: bool = False) -> None:
        self._files = files
        self._prefix = f"{folder}/" if folder else ""
        self._single_writer = single_writer

    @property
    def location(self) -> str:
        """The file system and the folder."""
        return f"{_name(self._files)}/{self._prefix}".rstrip("/")

    def create(self, name: str, pieces: Sequence[bytes]) -> bool:
        """Create a file unless there is one."""
        body = b"".join(pieces)
        if self._single_writer and self.exists(name):
            return False
        try:
            self._pipe(name, body, mode="create")
        except FileExistsError:
            return self.read(name) == body  # the client repeats a request whose answer was lost
        except (TypeError, NotImplementedError) as cause:  # a file system that does not know the mode
            if not self._single_writer:
                raise not_exclusive(self.location) from cause
            self._pipe(name, body)
        return True

    def replace(self, name: str, body: bytes) -> None:
        """Write a file."""
        self._pipe(name, body)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Read a range."""
        path = self._prefix + name
        if offset == 0 and length is None:
            return bytes(self._files.cat_file(path))
        start, end = bounds(self._files.info(path)["size"], offset, length)
        return bytes(self._files.cat_file(path, start=start, end=end)) if start < end else b""

    def exists(self, name: str) -> bool:
        """Look the file up, not in a listing that was cached."""
        self._files.invalidate_cache()
        return bool(self._files.exists(self._prefix + name))

    def list(self, folder: str) -> list[str]:
        """List the files of a folder."""
        self._files.invalidate_cache()
        try:
            entries = self._files.ls(self._prefix + folder, detail=True)
        except FileNotFoundError:
            return []
        return visible(entry["name"] for entry in entries if entry["type"] == "file")

    def delete(self, names: Iterable[str]) -> None:
        """Delete files."""
        for name in names:
            try:
                self._files.rm_file(self._prefix + name)
            except FileNotFoundError:
                continue

    def delete_unfinished(self, folder: str) -> None:
        """Do nothing: an object has no other name while it is written."""

    def sync(self, name: str) -> None:
        """Do nothing: an object is durable when its put returns."""

    def _pipe(self, name: str, body: bytes, **options: str) -> None:
        path = self._prefix + name
        try:
            self._files.pipe_file(path, body, **options)
        except FileNotFoundError:  # a file system with folders
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._files.pipe_file(path, body, **options)


def _name(store: Any) -> str:
    """Return a store in a message: its class, and its bucket where it has one. Never its credentials."""
    config = getattr(store, "config", None)
    bucket = config.get("bucket") if isinstance(config, dict) else None
    parts = [type(store).__name__, bucket, getattr(store, "prefix", None), getattr(store, "path", None)]
    return ":".join(str(part).strip("/") for part in parts if part and isinstance(part, str))
