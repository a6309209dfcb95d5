"""The examples of the documentation: read from its pages, run, and compared with what the pages show.

The ``python`` blocks of a page are one program, in the order of the page. What a block prints must be the ``text``
block that follows it, if there is one. ``python tests/docs/pages.py`` runs all pages and writes real output into them.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.rglob("*.md"))

_BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<shown>.*?)^```\n)?", re.DOTALL | re.MULTILINE)


_ANY_BLOCK = re.compile(r"^```(?P<kind>python|py)\n(?P<code>.*?)^```\n", re.DOTALL | re.MULTILINE)
# The values that blocks without a definition refer to.
_TYPES: dict[str, str] = {
    "spark": "SparkSession",
    "query": "ev.Query",
    **dict.fromkeys(("events", "orders_df", "payments_df"), "DataFrame"),
    **dict.fromkeys(("revenue", "live", "per_shop", "per_region", "alerts"), "ev.Pipeline"),
}


@dataclass(frozen=True)
class Example:
    """A block of code, what its page shows of it, and what it prints."""

    line: int
    code: str
    shown: str | None
    printed: str
    span: tuple[int, int]


def examples(page: Path, names: dict[str, Any] | None = None) -> Iterator[Example]:
    """Run the blocks of a page, one after the other, in one namespace, which has their ``names`` afterwards."""
    text = page.read_text(encoding="utf-8")
    names = {} if names is None else names
    names["__name__"] = page.stem
    with pl.Config(restore_defaults=True, tbl_width_chars=100):
        for block in _BLOCK.finditer(text):
            line = text.count("\n", 0, block.start("code")) + 1
            # Padded, so that a traceback names the line of the page.
            code = compile("\n" * (line - 1) + block["code"], str(page), "exec", dont_inherit=True)
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(code, names)
            yield Example(line, block["code"], block["shown"], out.getvalue(), block.span("shown"))


def program(page: Path) -> str:
    """Return the blocks of a page as one program, each at its line of the page; empty if there are none."""
    text = page.read_text(encoding="utf-8")
    code = ""
    for block in _BLOCK.finditer(text):
        code += "\n" * (text.count("\n", 0, block.start("code")) - code.count("\n")) + block["code"]
    return code


def fragments(page: Path) -> str:
    """Return all blocks of a page as one program, also those that are only read (``py``); empty if it has none.

    An ellipsis stands for anything, and some names have a type although the page does not define them.
    """
    text = page.read_text(encoding="utf-8")
    blocks = list(_ANY_BLOCK.finditer(text))
    if not any(block["kind"] == "py" for block in blocks):
        return ""
    code = ""
    for block in blocks:
        code += "\n" * (text.count("\n", 0, block.start("code")) - code.count("\n"))
        code += block["code"].replace("=…", "=_etc") if block["kind"] == "py" else block["code"]
    code = re.sub(r"(?<![\w\"'])…(?![\w\"'])", "_etc", code)
    names = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)]
    assigned = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    types = "; ".join(
        f"{name}: {_TYPES[name]}" for name in sorted({name.id for name in names} & _TYPES.keys() - assigned)
    )
    return f"import eventide as ev; from pyspark.sql import DataFrame, SparkSession; {types}{code}"


def rewrite(page: Path) -> bool:
    """Put real output into a page. True: something changed."""
    text = page.read_text(encoding="utf-8")
    new = text
    for example in reversed(list(examples(page))):
        if example.shown is not None:
            start, end = example.span
            new = new[:start] + example.printed + new[end:]
    if new != text:
        page.write_text(new, encoding="utf-8")
    return new != text


if __name__ == "__main__":
    for page in [Path(name) for name in sys.argv[1:]] or PAGES:
        print("changed  " if rewrite(page) else "unchanged", page.name)
