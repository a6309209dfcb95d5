"""Choose the storage of a checkpoint and of its commit records, and check that it creates files exclusively."""

from __future__ import annotations

import json
import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING, Any

from eventide._paths import local_path
from eventide.errors import PlanError
from eventide.spark.connect_session import is_connect, remote_checkpoint
from eventide.spark.errors import no_session, not_exclusive
from eventide.spark.hadoop_storage import HadoopStorage
from eventide.spark.object_storage import object_storage
from eventide.spark.storage import RECORDS, DirectoryStorage, LocalStorage, Storage, read_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STORE = "eventide/storage.json"
_WRITERS = 4  # that create the same name, in the test of a store


def storage_of(
    checkpoint: str | Path, spark: SparkSession | None = None, *, single_writer: bool = False
) -> DirectoryStorage:
    """Return the storage of a checkpoint: this machine's disk, or a file system of the session's Hadoop."""
    address = os.fspath(checkpoint)
    local = local_path(address, spark)
    if local is not None:
        return LocalStorage(local, single_writer=single_writer)
    session = spark or active_session()
    if session is None:
        raise no_session(f"The checkpoint {address!r}")
    if is_connect(session):
        raise remote_checkpoint(address)
    return HadoopStorage(address, session, single_writer=single_writer)


def address_exists(address: str, spark: SparkSession | None = None) -> bool:
    """Return whether there is a file at an absolute address. Nothing in it is escaped.

    A client of Spark Connect cannot look up files of other file systems, so they count as existing.
    """
    if is_connect(spark) and local_path(address, spark) is None:
        return True
    folder, _, name = address.rpartition("/")
    return storage_of(folder or "/", spark).exists(name)


def record_storage(checkpoint: Storage, store: Any = None, *, single_writer: bool = False) -> Storage:
    """Return the storage of the commit records: the checkpoint itself, or a folder of the store of the user.

    The folder is an id that the checkpoint holds. So several queries can share a store, and a query that is started
    without its store is rejected.
    """
    text = read_text(checkpoint, _STORE)
    if store is None:
        if text is not None:
            raise PlanError(
                f"The commit records of {checkpoint.location} are in another store, {json.loads(text)['location']}. "
                "Name it with storage=, in run() and inspect(), or with eventide run and eventide outputs --storage. "
                "Other commands cannot read them."
            )
        return checkpoint
    if text is None:
        if checkpoint.list(RECORDS):
            raise PlanError(
                f"The commit records of {checkpoint.location} are in the checkpoint itself, and storage= names "
                f"{object_storage(store, '').location}. Leave storage= out, or start a new checkpoint."
            )
        content = json.dumps({"id": uuid.uuid4().hex, "location": object_storage(store, "").location}).encode()
        try:
            checkpoint.create(_STORE, [content])
        except PlanError:  # the store of the checkpoint overwrites files, which is why another store was named
            checkpoint.replace(_STORE, content)
        text = read_text(checkpoint, _STORE)
    return object_storage(store, json.loads(text or "")["id"], single_writer=single_writer)


def can_rescale(checkpoint: Storage) -> bool:
    """Return whether ``rescale`` accepts a checkpoint: it has the commit records."""
    return read_text(checkpoint, _STORE) is None


def may_have_records(checkpoint: Storage) -> bool:
    """Return whether batches may have left commit records, in the checkpoint or in a store that is not known here."""
    return bool(checkpoint.list(RECORDS)) or checkpoint.exists(_STORE)


def check_exclusive(storage: Storage) -> None:
    """Reject a store in which several writers can create the same name, at the same time or one after the other.

    Two drivers of one checkpoint could both write a batch there. A store that checks before it writes is detected only
    if the writers race, so this is a test and not a proof.
    """
    name, barrier = f"eventide/_probe.{uuid.uuid4().hex}", Barrier(_WRITERS)

    def write(number: int) -> bool:
        barrier.wait()
        return storage.create(name, [bytes([number])])

    try:
        with ThreadPoolExecutor(_WRITERS) as pool:
            winners = [number for number, created in enumerate(pool.map(write, range(_WRITERS))) if created]
        if len(winners) != 1 or storage.create(name, [b"again"]) or storage.read(name) != bytes(winners):
            raise not_exclusive(storage.location)
    finally:
        storage.delete([name])


def active_session() -> SparkSession | None:
    """Return the session of this thread, if there is one."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()
