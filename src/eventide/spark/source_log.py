"""What Spark logs of the sources of a query: one line for each in ``offsets/N``, and the files that were read.

Sources have the same order in both placements: the inputs, the streams of marks, the control directory, the ticks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from eventide.errors import state as errors
from eventide.spark.replaced_file import replace_file

_NOTHING = "-"  # nothing was read of a source yet
_VERSION = "v1"


@dataclass(frozen=True)
class LoggedOffsets:
    """The file ``offsets/N`` of a checkpoint."""

    path: Path
    about: Mapping[str, Any]
    sources: tuple[str, ...]

    @classmethod
    def read(cls, checkpoint: Path, batch: int) -> LoggedOffsets:
        """Read the offsets of a batch."""
        path = checkpoint / "offsets" / str(batch)
        version, about, *sources = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
        if version != _VERSION:
            raise errors.unknown_offset_log(str(path), version)
        return cls(path, json.loads(about), tuple(sources))

    def rewrite(self, conf: Mapping[str, str], *, before: bool, after: bool) -> None:
        """Replace the file. ``before`` and ``after``: whether the query had, and will have, a source of ticks."""
        sources = self.sources[:-1] if before and not after else self.sources
        sources = (*sources, _NOTHING) if after and not before else sources
        about = {**self.about, "conf": {**self.about.get("conf", {}), **conf}}
        text = "\n".join([_VERSION, json.dumps(about, separators=(",", ":")), *sources])
        replace_file(self.path, text)

    def commands_read(self, checkpoint: Path, *, ticks: bool) -> set[str]:
        """Return the names of the files of the control directory that batches up to this one have read."""
        place = len(self.sources) - 1 - ticks
        offset = self.sources[place]
        if offset == _NOTHING:
            return set()
        last = json.loads(offset)["logOffset"]
        names = set()
        for file in (checkpoint / "sources" / str(place)).iterdir():
            if file.name.startswith("."):
                continue
            for line in file.read_text(encoding="utf-8").splitlines()[1:]:
                entry = json.loads(line)
                if entry["batchId"] <= last:
                    names.add(unquote(entry["path"].rpartition("/")[2]))
        return names
