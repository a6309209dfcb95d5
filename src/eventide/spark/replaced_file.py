"""Replaces a small file of a checkpoint on this machine: a reader sees the old content or the new one."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, text: str) -> None:
    """Write a file durably under a temporary name, then give it its name."""
    unfinished = path.with_name(f".{path.name}.new")
    with unfinished.open("w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # Hadoop's check sum of the old content
    unfinished.replace(path)
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
