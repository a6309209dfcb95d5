"""Private parts of Spark are used in named modules only, and ``docs/design/spark.md`` lists each use."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.test_layers import ALL_FILES, name_of, parsed
from tests.docs.pages import DOCS

ALLOWED = {
    "_jvm.py": {"_jvm", "_jsc", "_jdf", "_jsparkSession", "_local_iterator_from_socket"},
    "cli/spark_options.py": {"_instantiatedSession"},
    "spark/environment.py": {"_ensure_initialized", "_find_spark_home"},
    "spark/session.py": {"_gateway", "_instantiatedSession", "_options"},
}
REPLACES_STDOUT = {"spark/state_processor.py"}
PATCHES = {"cli/shutdown.py"}
PUBLIC = {"_asdict", "_fields", "_make", "_replace", "_exit", "_getframe"}  # of Python
PYSPARK_OBJECTS = ("builder", "spark", "SparkSession", "SparkContext", "sparkContext", "rows", "dataframe")
TREES = {name_of(path): parsed(path) for path in ALL_FILES}


def _own_names() -> set[str]:
    """The names that Eventide defines: functions, classes, variables and attributes."""
    names: set[str] = set()
    for tree in TREES.values():
        for node in ast.walk(tree):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    names.add(name)
                case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                    names.add(name)
    return names


EVENTIDE_NAMES = _own_names()


def private_uses(tree: ast.AST) -> set[str]:
    """The private names of other packages that a module uses as attributes, and those of Spark that it imports."""
    return set(_private_attributes(tree)) | set(_private_imports(tree))


def _private_attributes(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_") or node.attr.startswith("__"):
            continue
        owner = ast.unparse(node.value)
        if owner in ("self", "cls") or node.attr in PUBLIC:
            continue
        if node.attr not in EVENTIDE_NAMES or owner.rpartition(".")[2] in PYSPARK_OBJECTS:
            yield node.attr


def _private_imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pyspark"):
            yield from (alias.name for alias in node.names if alias.name.startswith("_"))


@pytest.mark.parametrize("path", ALL_FILES, ids=name_of)
def test_only_named_modules_use_private_parts_of_spark(path: Path) -> None:
    if path.parts[-2] == "streamsql":  # the parser of sqlglot is extended through its underscored methods
        return
    uses = private_uses(TREES[name_of(path)])
    assert uses == ALLOWED.get(name_of(path), set()), "go through eventide/_jvm.py, and list it in docs/design/spark.md"


def test_a_private_use_is_seen() -> None:
    assert private_uses(ast.parse("rows._jdf.schema(); spark._options; self._jvm; value._replace()")) == {
        "_jdf",
        "_options",
    }


def test_only_named_modules_replace_standard_output() -> None:
    replacing = {
        name
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and "sys.stdout" in map(ast.unparse, node.targets)
    }
    assert replacing == REPLACES_STDOUT


def test_only_named_modules_patch_pyspark() -> None:
    """A patch needs the module as an object; everything else is imported by name."""
    patching = {
        name
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "import_module"
        and any(isinstance(part, ast.Constant) and str(part.value).startswith("pyspark.") for part in node.args)
    }
    assert patching == PATCHES


def _documented_uses() -> list[list[str]]:
    """Return the rows of the table of private parts, without its head."""
    section = (DOCS / "design" / "spark.md").read_text(encoding="utf-8").partition("## Private parts of Spark\n")[2]
    table = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def test_every_module_with_a_private_use_is_documented() -> None:
    uses = " ".join(row[0] for row in _documented_uses())
    modules = {*ALLOWED, *REPLACES_STDOUT, *PATCHES} - {"_jvm.py"}
    assert not [module for module in modules if f"`{module}`" not in uses]
    public = {node.name for node in TREES["_jvm.py"].body if isinstance(node, ast.FunctionDef)}
    assert not [name for name in public if f"`_jvm.{name}`" not in uses]


def test_every_private_use_has_the_reason_why_no_public_part_serves() -> None:
    assert [row[0] for row in _documented_uses() if len(row) != 6 or row[2] in ("", "—")] == []
