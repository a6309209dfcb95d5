"""Shows the examples of docstrings as code: an extension of Griffe, which reads the docstrings for the API reference.

Griffe recognizes examples only in sections of their own. Here they follow the text, as doctest allows.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

import griffe


def fenced(docstring: str) -> str:
    """Put each example, which ends at an empty line, into a fence."""
    blocks = []
    for blank, group in groupby(docstring.split("\n"), key=lambda line: not line.strip()):
        lines = list(group)
        is_example = not blank and lines[0].lstrip().startswith(">>>")
        blocks += ["```pycon", *lines, "```"] if is_example else lines
    return "\n".join(blocks)


class DoctestFences(griffe.Extension):
    """Applies ``fenced`` to every docstring."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Change the docstring of an object."""
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)
