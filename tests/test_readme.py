"""The README's example prints what the README says, and its figures are those of the benchmarks."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import polars as pl
import pytest

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")
EXAMPLE = re.compile(r"```python\n(.*?)```\s+```text\n(.*?)```", re.DOTALL)
_FIGURE = r"^\| [^|]*\(`(\w+)`\) \| ([\d,.]+) (?:ms|s|rows/s) \| ([\d,.]+|the same)(?: m?s)? \| ([\d.]+) \|$"
FIGURES = re.findall(_FIGURE, TEXT, re.MULTILINE)
_MEASURED = r"^\| `(\w+)`[^|]* \| ([\d,.]+) \| ([\d,.]+|the same)[^|]* \| [^|]* \| ([\d.]+) \|"


def _example() -> tuple[str, str]:
    match = EXAMPLE.search(TEXT)
    assert match is not None
    return match[1], match[2]


def _printed() -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pl.Config(restore_defaults=True, tbl_width_chars=100):
        exec(compile(_example()[0], "README.md", "exec"), {})
    return out.getvalue()


def test_the_example_prints_what_the_readme_shows() -> None:
    assert _printed() == _example()[1]


def test_the_example_has_fifteen_lines() -> None:
    assert len([line for line in _example()[0].splitlines() if line.strip()]) <= 15


def test_the_two_commands_stand_in_the_readme() -> None:
    assert re.search(r"^make demo", TEXT, re.MULTILINE)
    assert re.search(r"^make test", TEXT, re.MULTILINE)
    assert TEXT.index("make demo") < 1_500


def test_there_are_figures() -> None:
    assert len(FIGURES) > 10


@pytest.mark.parametrize("figure", FIGURES, ids=[figure[0] for figure in FIGURES])
def test_a_figure_is_that_of_the_benchmarks(figure: tuple[str, ...]) -> None:
    measured = re.findall(_MEASURED, (ROOT / "bench/README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert figure in measured


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", TEXT))))
def test_a_link_of_the_readme_leads_somewhere(target: str) -> None:
    assert (ROOT / target).exists()


if __name__ == "__main__":  # writes real output
    start, end = EXAMPLE.search(TEXT).span(2)  # type: ignore[union-attr]
    README.write_text(TEXT[:start] + _printed() + TEXT[end:], encoding="utf-8")
