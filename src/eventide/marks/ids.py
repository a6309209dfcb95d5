"""Ids of writers."""

from __future__ import annotations

import re

_GENERATED = re.compile("writer-[0-9a-f]{32}")


def is_generated(writer: str) -> bool:
    """Whether a writer was given its id because it had none: nobody will come back under it.

    >>> is_generated("writer-" + 32 * "0"), is_generated("writer-1")
    (True, False)
    """
    return _GENERATED.fullmatch(writer) is not None
