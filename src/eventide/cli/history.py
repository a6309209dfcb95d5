"""The history of a query: a line of JSON for each batch, as ``--json`` prints it and ``eventide plot`` draws it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from eventide.errors import EventideError
from eventide.errors import cli as errors
from eventide.spark.metrics import BatchMetrics
from eventide.spark.metrics_json import from_json, to_json
from eventide.time import format_instant, instant

_MOST = 8 << 20  # bytes of a file; then it becomes the older one, and the one before that goes
_BESIDE = Path("eventide") / "history.jsonl"


@dataclass(frozen=True)
class Windows:
    """Panes of one batch for one window: of how many keys, told when."""

    batch: int
    start: int
    end: int
    timing: str
    diff: int
    keys: int
    at: int


@dataclass(frozen=True)
class Told:
    """What a history says, oldest first; of a batch that was repeated the last."""

    batches: Sequence[BatchMetrics]
    windows: Sequence[Windows]


class History:
    """Writes what batches did to a file: ``ev.run(…, on_batch=History("shop.jsonl"))``. It keeps the newest of them."""

    def __init__(self, path: str | Path, *, most: int = _MOST) -> None:
        self.path = Path(path)
        self._most = most
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def __call__(self, one: BatchMetrics) -> None:
        """A batch has ended."""
        self._write(to_json(one))

    def add(self, windows: Sequence[Windows]) -> None:
        """Panes were told."""
        for one in windows:
            times = {name: format_instant(getattr(one, name)) for name in ("start", "end", "at")}
            self._write({"window": asdict(one) | times})

    def _write(self, line: Mapping[str, Any]) -> None:
        if self.path.is_file() and self.path.stat().st_size > self._most:
            self.path.replace(_older(self.path))
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def beside(checkpoint: str) -> Path | None:
    """Where the history of a checkpoint lies; None for one that is not on this machine."""
    from eventide.spark.addresses import on_disk

    local = on_disk(checkpoint)
    return None if local is None else Path(local) / _BESIDE


def read(path: str | Path) -> Told:
    """The history in a file, or beside a checkpoint."""
    given = Path(path)
    file = given / _BESIDE if given.is_dir() else given
    if not file.is_file():
        raise errors.no_history(str(path))
    batches: dict[tuple[int, int, int], BatchMetrics] = {}
    windows: dict[Windows, None] = {}
    for where, line in _lines(file):
        try:
            told = json.loads(line)
            if "window" in told:
                windows[_windows(told["window"])] = None
            else:
                one = from_json(told)
                batches[one.batch, one.depth, one.at] = one
        except (ValueError, KeyError, TypeError, AttributeError, EventideError) as cause:
            raise errors.not_a_history(str(file), where) from cause
    return Told(list(batches.values()), list(windows))


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    older = _older(file)
    for one in (older, file) if older.is_file() else (file,):
        with one.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.endswith("\n"):  # what a crash has cut off is no line
                    yield number, line


def _older(file: Path) -> Path:
    return file.with_name(f"{file.stem}.older{file.suffix}")


def _windows(told: Mapping[str, Any]) -> Windows:
    return Windows(**dict(told) | {name: instant(told[name]) for name in ("start", "end", "at")})
