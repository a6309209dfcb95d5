"""A stopped query, as its checkpoint describes it: what ``rescale`` needs to know before it reads the state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eventide.errors import PlanError
from eventide.spark.checkpoint_storage import record_storage
from eventide.spark.commit_log import CommitLog
from eventide.spark.control_status import is_running
from eventide.spark.errors import no_state
from eventide.spark.inspection import StoredOperator, read_driver_state, read_executor_state
from eventide.spark.query_record import FILE, QueryRecord
from eventide.spark.source_log import LoggedOffsets
from eventide.spark.storage import DirectoryStorage, LocalStorage
from eventide.state.commit_record import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class StoppedQuery:
    """A query that does not run."""

    files: DirectoryStorage
    record: QueryRecord
    batch: int  # the last one that Spark has committed

    @classmethod
    def open(cls, files: DirectoryStorage) -> StoppedQuery:
        """Read what the query has recorded. Reject a query that runs, or has finished no batch."""
        commits = [int(name) for name in files.list("commits") if name.isdecimal()]
        if not files.exists(FILE) or not commits:
            raise no_state(files.location)
        if isinstance(files, LocalStorage) and is_running(Path(files.location) / "eventide"):
            raise PlanError(
                f"A query is running on the checkpoint {files.location!r}. Stop it, then rescale its state."
            )
        return cls(files, QueryRecord.from_text(files.read(FILE).decode()), max(commits))

    @property
    def buckets(self) -> list[int]:
        """The buckets of each operator."""
        return [operator.buckets for operator in self.record.operators]

    @property
    def logged(self) -> list[int]:
        """The last batch, and one that Spark will repeat."""
        return [batch for batch in (self.batch, self.batch + 1) if self.files.exists(f"offsets/{batch}")]

    def operators(self, spark: SparkSession) -> Iterator[StoredOperator]:
        """Yield the stored state of each operator."""
        if self.record.state == "driver":
            yield from read_driver_state(*self.newest_record())
            return
        depth = -1
        for depth, operator in enumerate(read_executor_state(spark, self.files.address, self.batch)):  # noqa: B007
            yield operator
        if depth < 0:
            raise no_state(self.files.location)

    def newest_record(self) -> tuple[CommitLog, Record]:
        """Return the commit log and its newest record. Reject outputs that may not have reached the sinks."""
        log = self.commit_log()
        newest = log.newest()
        location = self.files.location
        if newest is None:
            raise no_state(location)
        if newest.footer["batch"] > self.batch:
            raise PlanError(
                f"Batch {self.batch + 1} of the checkpoint {location!r} is pending: its outputs are recorded, "
                "and the sinks have not confirmed them. Start the query once more with its old placement, which "
                f"delivers them; then rescale its state. To see them: eventide outputs {location}"
            )
        return log, newest

    def commit_log(self) -> CommitLog:
        """Return the commit log."""
        return CommitLog(self.files, record_storage(self.files))

    def commands(self) -> set[str]:
        """Return the applied commands that the other placement would apply again."""
        if self.record.state == "driver":
            return set(self.newest_record()[1].footer["commands"])
        return LoggedOffsets.read(self.files, self.batch).commands_read(ticks=self.record.ticks["executors"])

    def check_unchanged(self) -> None:
        """Reject a query that was started meanwhile."""
        now = StoppedQuery.open(self.files)
        if (now.record, now.batch) != (self.record, self.batch):
            raise PlanError(
                f"The query of the checkpoint {self.files.location!r} has run while its state was rescaled. Nothing "
                "was changed. Stop the query, then rescale its state."
            )
