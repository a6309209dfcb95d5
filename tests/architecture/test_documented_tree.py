"""The design page lists every layer and every module."""

from __future__ import annotations

import re

from tests.architecture.test_layers import ALL_FILES, LAYERS, name_of
from tests.docs.pages import DOCS

PAGE = (DOCS / "design" / "architecture.md").read_text(encoding="utf-8")


def listed_modules(page: str) -> list[str]:
    """Return the paths in the list of modules: a package without indentation, then its modules."""
    listed, package = [], ""
    for line in page.partition("## Modules")[2].partition("```text\n")[2].partition("```")[0].splitlines():
        name = line.split()[0]
        if line.startswith(" "):
            listed.append(package + name)
        else:
            package = name.removeprefix("eventide/")
    return listed


def test_the_list_of_modules_is_the_tree() -> None:
    listed = [name for name in listed_modules(PAGE) if name.endswith(".py")]
    modules = {name_of(path) for path in ALL_FILES if path.name != "__init__.py"}
    assert sorted(listed) == sorted({*modules, "__init__.py"})


def test_the_table_of_layers_is_the_one_that_imports_are_checked_against() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+?) \|", PAGE.partition("## Layers")[2].partition("\n## ")[0], re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(len(LAYERS)))
    assert [set(re.findall(r"`(\w+)`", names)) for _, names in rows] == [set(layer) for layer in LAYERS]


def test_a_module_that_is_not_listed_is_recognised() -> None:
    page = "## Modules\n```text\neventide/  names\n  errors.py  types\nplan/  what\n  plan.py  Plan\n```\n"
    assert listed_modules(page) == ["errors.py", "plan/plan.py"]
