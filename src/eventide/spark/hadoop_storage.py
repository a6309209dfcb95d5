"""The files of a checkpoint on the file system that the session of Spark itself uses: HDFS, an object store, others.

A file appears under its name when it is complete. Where the store can create an object only if there is none, the file
is written under its name and created by ``close``. Elsewhere it is written under another name and renamed, as Spark
does with the files of its checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

from eventide._jvm import hadoop
from eventide.errors import PlanError
from eventide.spark.connect_session import is_connect
from eventide.spark.errors import not_exclusive
from eventide.spark.storage import bounds, hidden_name, unfinished, visible

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONDITIONAL = "fs.option.create.conditional.overwrite"  # an object is created by close(), if there is none
_ATOMIC_CREATE = frozenset({"gs"})  # the same with create(overwrite=false)
_OBJECT_STORES = frozenset({"gs", "s3a", "s3", "s3n", "oss", "cosn", "obs", "swift"})  # a rename copies the object
_ABORTABLE = "fs.capability.outputstream.abortable"
_LARGE = 1 << 20  # bytes; more travel between Python and Java in a temporary file, not as the text of a call
_BUFFER = 1 << 16
_STATUS = "org.apache.hadoop.fs.FileStatus"

_EXISTS = ("FileAlreadyExistsException", "RemoteFileChangedException")
_MISSING = ("FileNotFoundException",)


class HadoopStorage:
    """A directory of a Hadoop file system, with the settings and credentials of a session."""

    def __init__(self, address: str, spark: SparkSession, *, single_writer: bool = False) -> None:
        from py4j.protocol import Py4JJavaError

        self._spark, self._single_writer = spark, single_writer
        self._java, settings = hadoop(spark)
        root = self._java.org.apache.hadoop.fs.Path(address)
        try:
            self._files = root.getFileSystem(settings)
        except Py4JJavaError as cause:
            raise PlanError(
                f"Spark cannot open the file system of {address!r}: {cause.java_exception.toString()}"
            ) from cause
        self._location = str(self._files.makeQualified(root).toString()).rstrip("/")
        scheme = self._files.getUri().getScheme()
        self._conditional = bool(self._files.hasPathCapability(root, _CONDITIONAL))
        self._puts = self._conditional or scheme in _OBJECT_STORES
        self._exclusive = self._conditional or scheme not in _OBJECT_STORES - _ATOMIC_CREATE or single_writer
        self._context = None if self._puts else self._rename_context(root, settings)

    @property
    def location(self) -> str:
        """The directory with its scheme."""
        return self._location

    def create(self, name: str, pieces: Sequence[bytes]) -> bool:
        """Create an object, or write a hidden file and rename it."""
        with self._errors(name):
            if self._puts:
                return self._put(name, pieces)
            unfinished = self._write_hidden(name, pieces)
            try:
                return self._rename(unfinished, self._path(name))
            finally:
                self._files.delete(unfinished, False)  # it is gone unless the name existed

    def replace(self, name: str, body: bytes) -> None:
        """Write a new file over the old one."""
        with self._errors(name):
            path = self._path(name)
            if self._context is None:  # on an object store the new object appears by close()
                self._write(self._files.create(path, True), [body])
                return
            unfinished = self._write_hidden(name, [body])
            overwrite = self._java.org.apache.hadoop.fs.Options.Rename.OVERWRITE
            self._context.rename(unfinished, path, self._options(overwrite))

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Read a range in as few calls as possible."""
        with self._errors(name):
            path = self._path(name)
            if offset < 0 or length is None:
                size = self._files.getFileStatus(path).getLen()
                offset, end = bounds(size, offset, length)
                length = end - offset
            stream = self._files.open(path)
            try:
                stream.seek(offset)
                return self._read(stream, length)
            except Exception as cause:
                if _is_kind(cause, ("EOFException",)):  # the file is shorter than the offset
                    return b""
                raise
            finally:
                stream.close()

    def exists(self, name: str) -> bool:
        """Look the name up."""
        with self._errors(name):
            return bool(self._files.exists(self._path(name)))

    def list(self, folder: str) -> list[str]:
        """List a folder without hidden files."""
        return visible(self._entries(folder))

    def delete(self, names: Iterable[str]) -> None:
        """Delete files."""
        for name in names:
            with self._errors(name):
                self._files.delete(self._path(name), False)

    def delete_unfinished(self, folder: str) -> None:
        """Delete what ``create`` has not renamed; objects have no other name while they are written."""
        if not self._puts:
            self.delete(f"{folder}/{name}" for name in unfinished(self._entries(folder)))

    def sync(self, name: str) -> None:
        """Do nothing: what its writer has closed is stored on other machines already."""

    def _entries(self, folder: str) -> Sequence[str]:
        """Return the paths of all files in a folder. Where possible, they come back as one text.

        Python cannot pass an array to Java as an array of a more general class, such as that of the entries of S3.
        """
        try:
            with self._errors(folder):
                entries = self._files.listStatus(self._path(folder))
        except FileNotFoundError:
            return []
        if "," in self._location or self._entry_class(entries) != _STATUS:
            return [str(entry.getPath().getName()) for entry in entries]
        paths = self._java.org.apache.hadoop.fs.FileUtil.stat2Paths(entries)
        return str(self._java.org.apache.commons.lang3.ArrayUtils.toString(paths))[1:-1].split(",")

    @property
    def address(self) -> str:
        """The directory with its scheme."""
        return self._location

    def below(self, folder: str) -> HadoopStorage:
        """Return a folder as a storage."""
        return HadoopStorage(f"{self._location}/{folder}", self._spark, single_writer=self._single_writer)

    def walk(self, folder: str) -> Sequence[str]:
        """Walk a folder."""
        prefix, names = f"{self._location}/{folder}/", []
        try:
            with self._errors(folder):
                entries = self._files.listFiles(self._path(folder), True)
                while entries.hasNext():
                    names.append(str(entries.next().getPath().toString()).removeprefix(prefix))
        except FileNotFoundError:
            return []
        return sorted(names)

    def move(self, source: str, target: str) -> None:
        """Rename. On an object store, which copies, a folder is moved file by file, so that it can be continued."""
        with self._errors(source):
            if self._puts and self._files.getFileStatus(self._path(source)).isDirectory():
                for name in self.walk(source):
                    self._move(self._path(f"{source}/{name}"), self._path(f"{target}/{name}"))
                self._files.delete(self._path(source), True)
            else:
                self._move(self._path(source), self._path(target))

    def remove(self, name: str) -> None:
        """Delete a file or a tree."""
        with self._errors(name):
            self._files.delete(self._path(name), True)

    def _move(self, source: Any, target: Any) -> None:
        self._files.mkdirs(target.getParent())
        if self._context is not None:
            self._context.rename(
                source, target, self._options(self._java.org.apache.hadoop.fs.Options.Rename.OVERWRITE)
            )
            return
        if self._files.exists(source):
            self._files.delete(target, False)
        if not self._files.rename(source, target):
            raise OSError(f"{source.toString()} cannot be renamed to {target.toString()}")

    def _entry_class(self, entries: Any) -> str:
        return str(entries.getClass().getComponentType().getName())

    def _path(self, name: str) -> Any:
        return self._java.org.apache.hadoop.fs.Path(f"{self._location}/{name}")

    def _put(self, name: str, pieces: Sequence[bytes]) -> bool:
        if not self._exclusive:
            raise not_exclusive(self._location)
        path = self._path(name)
        try:
            if self._conditional:
                stream = self._files.createFile(path).overwrite(True).must(_CONDITIONAL, True).build()
            else:
                stream = self._files.create(path, False)
            self._write(stream, pieces)
        except Exception as cause:
            if not _is_kind(cause, _EXISTS):
                raise
            # The client of a store repeats a request whose answer was lost, and then finds its own object.
            return self.read(name) == b"".join(pieces)
        return True

    def _write_hidden(self, name: str, pieces: Sequence[bytes]) -> Any:
        folder, _, last = name.rpartition("/")
        path = self._path(f"{folder}/{hidden_name(last)}")
        try:
            self._write(self._files.create(path, False), pieces)
        except BaseException:
            self._files.delete(path, False)
            raise
        return path

    def _write(self, stream: Any, pieces: Sequence[bytes]) -> None:
        """Write all pieces and close. After an error nothing is closed where that would create an object."""
        try:
            if sum(map(len, pieces)) <= _LARGE:
                stream.write(b"".join(pieces))
            else:
                self._write_large(stream, pieces)
            if stream.hasCapability("hsync"):
                stream.hsync()
        except BaseException:
            if not self._puts:
                stream.close()
            elif stream.hasCapability(_ABORTABLE):
                stream.abort()
            raise
        stream.close()

    def _write_large(self, stream: Any, pieces: Sequence[bytes]) -> None:
        with NamedTemporaryFile() as transfer:
            transfer.writelines(pieces)
            transfer.flush()
            source = self._java.java.io.FileInputStream(transfer.name)
            try:
                self._java.org.apache.hadoop.io.IOUtils.copyBytes(source, stream, _BUFFER, False)
            finally:
                source.close()

    def _read(self, stream: Any, length: int) -> bytes:
        if length <= _LARGE:
            return bytes(stream.readNBytes(max(0, length)))
        with NamedTemporaryFile() as transfer:
            target = self._java.java.io.FileOutputStream(transfer.name)
            try:
                self._java.org.apache.hadoop.io.IOUtils.copyBytes(stream, target, length, False)
            finally:
                target.close()
            return transfer.read()

    def _rename(self, source: Any, target: Any) -> bool:
        """Rename a file unless the target exists."""
        if self._context is not None:
            try:
                self._context.rename(source, target, self._options())
            except Exception as cause:
                if _is_kind(cause, _EXISTS):
                    return False
                raise
            return True
        if self._files.exists(target):
            return False
        if self._files.rename(source, target):
            return True
        if self._files.exists(target):
            return False
        raise OSError(f"{target.toString()} cannot be created by renaming a file")

    def _rename_context(self, root: Any, settings: Any) -> Any:
        """Return Hadoop's newer interface, whose rename does not overwrite; None where a file system lacks it."""
        try:
            return self._java.org.apache.hadoop.fs.FileContext.getFileContext(
                self._files.makeQualified(root).toUri(), settings
            )
        except Exception as cause:
            if _is_kind(cause, ("UnsupportedFileSystemException",)):
                return None
            raise

    def _options(self, *options: Any) -> Any:
        kind = self._java.org.apache.hadoop.fs.Options.Rename
        array = self._java.java.lang.reflect.Array.newInstance(kind.NONE.getClass(), len(options))
        for place, option in enumerate(options):
            array[place] = option
        return array

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        """Raise Java's errors as errors of files that name the file."""
        from py4j.protocol import Py4JJavaError

        try:
            yield
        except Py4JJavaError as cause:
            kind = FileNotFoundError if _is_kind(cause, _MISSING) else OSError
            raise kind(f"{self._location}/{name}: {cause.java_exception.toString()}") from cause


def file_sizes(addresses: Iterable[str], spark: SparkSession) -> dict[str, int | None]:
    """Return the bytes of files on the file systems of a session; None for a file that cannot be looked up."""
    if is_connect(spark):
        return dict.fromkeys(addresses)
    from py4j.protocol import Py4JJavaError

    java, settings = hadoop(spark)
    sizes: dict[str, int | None] = {}
    for address in addresses:
        path = java.org.apache.hadoop.fs.Path(address)
        try:
            sizes[address] = int(path.getFileSystem(settings).getFileStatus(path).getLen())
        except Py4JJavaError:
            sizes[address] = None
    return sizes


def _is_kind(error: Exception, names: Sequence[str]) -> bool:
    """Return whether an error of Java, or one of its causes, is of a class with one of these names."""
    cause = getattr(error, "java_exception", None)
    while cause is not None:
        if cause.getClass().getSimpleName() in names:
            return True
        cause = cause.getCause()
    return False
