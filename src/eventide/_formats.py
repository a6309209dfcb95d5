"""The version numbers of stored formats. Raise a number when the bytes of that format change their meaning.

Every state that a later version continues from has a number. What is stored as JSON or as tables with named columns has
none: the history of a query, its commands, the journals of a rescale, the table of batches in a database, and the
messages that ``without_repeats`` has seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

FORMATS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "state": 1,  # a saved state, its header and its pages, including watermark trackers
        "commit record": 1,  # the file that a batch with state in the driver writes
        "query record": 1,  # the file in a checkpoint that describes the query
        "standalone store": 1,  # the SQLite file of a standalone operator
        "marks store": 1,  # the tables of a store of marks
        "reader group": 1,  # the shared position of a reader group, in a store of marks
    }
)
