"""The history of a query: a line of JSON for each batch, for the windows of its panes, and for its failure.

A query writes it next to a checkpoint on this machine. Nothing reads it to continue: a history that is lost or cannot
be written changes no result.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from eventide._jvm import is_stopped
from eventide.errors import PlanError
from eventide.sinks.batch import SinkBatch
from eventide.spark.history_totals import totals_of
from eventide.spark.metrics import BatchMetrics, to_json
from eventide.spark.pane_counts import WindowPanes, count_panes
from eventide.spark.query import understood
from eventide.time import format_instant

FILE = Path("eventide") / "history.jsonl"
"""The history of a query in its checkpoint."""

OTHER_LINES = ("window", "failed", "totals")
"""The keys of lines that are no batch of an operator."""

WINDOWS = 40
"""The windows of a batch in the history of a checkpoint: its size is limited."""

TRACED_WINDOWS = 500
"""The windows of a batch in a file of ``trace=``."""

_MOST = 8 << 20  # bytes of a file; then it replaces the older file
_UNLIMITED = 1 << 60  # bytes of a file of ``trace=``
_TAIL = 1 << 20  # bytes at the end of a file in which an incomplete line begins
_JAVA = "An error occurred while calling "


class History:
    """Appends the batches of a query to a file. A full file replaces the older one; the next begins with totals."""

    def __init__(self, path: str | Path, *, most: int = _MOST, windows: int = TRACED_WINDOWS) -> None:
        self.path = Path(path)
        self.windows = windows  # of a batch
        self._most = most
        self._complete = False  # whether the last line is known to be complete

    def write(self, metrics: Sequence[BatchMetrics], windows: Sequence[WindowPanes] = ()) -> None:
        """Append the operators of a batch and the windows of its panes."""
        lines = [*(_window_line(panes) for panes in windows[: self.windows]), *map(to_json, metrics)]
        if lines:
            self._append(lines)

    def fail(self, reason: str) -> None:
        """Append why the query has ended. A later batch shows that it runs again."""
        self._append([{"failed": reason}])

    def create(self) -> None:
        """Create the file, so that a dashboard finds the query before its first batch."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.touch()

    def _append(self, lines: Sequence[Mapping[str, Any]]) -> None:
        if not self._complete:
            self.create()
            _delete_incomplete_line(self.path)
        self._complete = False  # until the line is written
        if self.path.is_file() and self.path.stat().st_size > self._most:
            lines = [{"totals": totals_of(_entries(self.path))}, *lines]
            self.path.replace(older_file(self.path))
        text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
        with self.path.open("ab") as file:
            file.write(text.encode("utf-8", "replace"))
        self._complete = True


class RunHistory:
    """Writes the history of a run into files. A file that cannot be written is a warning, once."""

    def __init__(self, files: Sequence[History] = (), *, traced: bool = False) -> None:
        self._files = list(files)
        self._traced = traced  # also panes that are on the executors, which costs a job of Spark
        self._panes: list[WindowPanes] = []  # of the batch that runs
        self._failed = False
        for file in files:
            with self._warning(file):
                file.create()

    def count(self, panes: SinkBatch, batch: int) -> None:
        """Count the panes of a batch by window. They are written with the metrics of the batch."""
        if self._files and (panes.is_local or self._traced):
            self._panes = count_panes(panes, batch, max(file.windows for file in self._files))

    def write(self, metrics: Sequence[BatchMetrics]) -> None:
        """Write a batch, and the panes that were counted."""
        panes, self._panes, self._failed = self._panes, [], False
        for file in list(self._files):
            with self._warning(file):
                file.write(metrics, panes)

    def fail(self, cause: Exception, spark: Any = None) -> None:
        """Write why the query has failed, once. The end of a session is no failure of its query."""
        if self._failed or (spark is not None and is_stopped(spark)):
            return
        self._failed = True
        for file in list(self._files):
            with self._warning(file):
                file.fail(failure_text(cause))

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Write why the body fails."""
        try:
            yield
        except Exception as cause:
            self.fail(cause)
            raise

    @contextmanager
    def _warning(self, file: History) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as cause:
            self._files.remove(file)
            warnings.warn(
                f"The history {str(file.path)!r} cannot be written: {cause}. The query continues without it, and "
                "dashboards show no later batches. It is written again when the query is started again.",
                stacklevel=2,
            )


def run_history(checkpoint: Path | None, trace: bool | str | Path) -> RunHistory:
    """Return the history of a run: next to a checkpoint on this machine, and in the file of ``trace``."""
    files = [] if checkpoint is None else [History(checkpoint / FILE, windows=WINDOWS)]
    if not isinstance(trace, bool):
        files.append(_trace_file(Path(trace)))
    return RunHistory(files, traced=trace is not False)


def _trace_file(path: Path) -> History:
    file = History(path, most=_UNLIMITED)
    try:
        file.create()
        with path.open("a"):
            return file
    except OSError as cause:
        raise PlanError(
            f"run(trace={str(path)!r}) cannot be written: {cause.strerror or cause}. Name a file, such as "
            "'revenue.jsonl'."
        ) from cause


def history_file(checkpoint: str) -> Path | None:
    """Return the history file of a checkpoint; None for a checkpoint that is not on this machine."""
    from eventide._paths import on_disk

    local = on_disk(checkpoint)
    return None if local is None else Path(local) / FILE


def older_file(file: Path) -> Path:
    """Return the file that a full history file becomes."""
    return file.with_name(f"{file.stem}.older{file.suffix}")


def _entries(file: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the readable lines of a history, those of its older file first."""
    for path in (older_file(file), file):
        for line in read_lines(path)[0] if path.is_file() else ():
            with suppress(ValueError):
                if isinstance(entry := json.loads(line), dict):
                    yield entry


def read_lines(file: Path, offset: int = 0) -> tuple[list[bytes], int]:
    """Return the complete lines from an offset on, and where they end. A crash may have truncated the last line."""
    with file.open("rb") as opened:
        opened.seek(offset)
        content = opened.read()
    end = content.rfind(b"\n") + 1
    return content[:end].splitlines(), offset + end


def failure_text(cause: Exception) -> str:
    r"""Return why a query failed, in Eventide's words where it or its absence was the reason.

    >>> failure_text(PlanError("The table is gone.")), failure_text(KeyError("shop"))
    ('The table is gone.', "KeyError: 'shop'")
    >>> failure_text(Exception("An error occurred while calling o7.collect.\n: java.io.IOException: No space left"))
    'java.io.IOException: No space left'
    """
    known = understood(cause)
    text = str(known).strip()
    if text.startswith(_JAVA):
        text = text.partition("\n")[2].removeprefix(": ") or text
    if not text:
        return type(known).__name__
    plain = type(known).__module__ == "builtins" and type(known) is not Exception
    return f"{type(known).__name__}: {text}" if plain else text


def _window_line(panes: WindowPanes) -> dict[str, Any]:
    return {"window": asdict(panes) | {name: format_instant(getattr(panes, name)) for name in ("start", "end", "at")}}


def _delete_incomplete_line(path: Path) -> None:
    """Delete a last line that a crash has cut off. Readers have not read it yet: they stop at the last line end."""
    with path.open("rb+") as file:
        size = file.seek(0, 2)
        start = file.seek(max(size - _TAIL, 0))
        tail = file.read()
        end = tail.rfind(b"\n") + 1
        if tail[end:].startswith(b"{"):
            file.truncate(start + end)
