"""Dependencies point one way: hosts know the core, the core knows neither them nor a clock, a file or chance."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
from pathlib import Path

import pytest

import eventide

SOURCE = Path(eventide.__file__).parent
CORE = ("time", "windows", "watermarks", "triggers", "aggregates", "processors", "operators", "state", "panes.py")
HOSTS = ("local", "standalone", "testing", "spark", "sinks", "streamsql", "cli", "marks", "dashboard", "demo")
OUTSIDE = ("pyspark", "random", "secrets", "threading", "subprocess", "socket", "os", "time")
FORBIDDEN_CALLS = {"open", "datetime.now", "datetime.utcnow", "date.today", "time.time", "time.time_ns", "print"}

CORE_FILES = [
    path
    for part in CORE
    for path in ([SOURCE / part] if part.endswith(".py") else sorted((SOURCE / part).rglob("*.py")))
]
ALL_FILES = sorted(SOURCE.rglob("*.py"))


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def imports(tree: ast.AST, *, typing_too: bool = True) -> set[str]:
    """The modules that a file imports, at the top or inside a function."""
    skipped = set() if typing_too else {id(n) for guard in ast.walk(tree) if _for_types(guard) for n in ast.walk(guard)}
    found: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module or ""}
    return found


def _for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def calls(tree: ast.AST) -> set[str]:
    """What a file calls, as it is written."""
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_the_core_is_where_this_test_looks_for_it() -> None:
    assert len(CORE_FILES) > 50


@pytest.mark.parametrize("path", CORE_FILES, ids=name_of)
def test_the_core_knows_no_host(path: Path) -> None:
    known = imports(parsed(path))
    assert not {name for name in known for host in HOSTS if f"{name}.".startswith(f"eventide.{host}.")}


@pytest.mark.parametrize("path", CORE_FILES, ids=name_of)
def test_the_core_knows_no_spark_no_clock_no_chance_and_no_threads(path: Path) -> None:
    known = imports(parsed(path))
    assert not {name for name in known for module in OUTSIDE if f"{name}.".startswith(f"{module}.")}


@pytest.mark.parametrize("path", CORE_FILES, ids=name_of)
def test_the_core_asks_no_clock_and_opens_no_file(path: Path) -> None:
    assert not calls(parsed(path)) & FORBIDDEN_CALLS


@pytest.mark.parametrize(
    ("part", "may_know"),
    [
        ("errors", {"errors", "time"}),
        ("time", {"errors", "time"}),
        ("windows", {"columns", "errors", "time", "windows"}),
        ("triggers", {"errors", "time", "triggers"}),
        ("watermarks", {"columns", "errors", "time", "watermarks"}),
        ("aggregates", {"errors", "time", "aggregates"}),
        ("state", {"errors", "time", "state"}),
        ("processors", {"errors", "time", "state", "watermarks", "processors"}),
    ],
)
def test_a_concept_knows_only_what_is_below_it(part: str, may_know: set[str]) -> None:
    for path in sorted((SOURCE / part).rglob("*.py")):
        known = {name.split(".")[1] for name in imports(parsed(path), typing_too=False) if name.startswith("eventide.")}
        assert known <= may_know, name_of(path)


@pytest.mark.parametrize("path", [p for p in ALL_FILES if p.parent.name != "errors"], ids=name_of)
def test_messages_are_written_in_one_place(path: Path) -> None:
    assert not calls(parsed(path)) & {"PlanError", "DataError", "EventideError"}


@pytest.mark.parametrize("path", sorted((SOURCE / "errors").glob("*.py")), ids=name_of)
def test_a_message_ends_as_a_sentence_and_says_what_it_is_about(path: Path) -> None:
    for function in (node for node in parsed(path).body if isinstance(node, ast.FunctionDef)):
        assert ast.get_docstring(function) or function.name.startswith("_"), function.name


PUBLIC = [
    name
    for name, value in ((name, getattr(eventide, name)) for name in eventide.__all__)
    if (inspect.isfunction(value) or inspect.isclass(value))
]


def test_there_is_a_public_face() -> None:
    assert {"stream", "tumbling", "bounded_delay", "on_update", "sum", "Aggregate", "WindowKind"} <= set(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_documented(name: str) -> None:
    assert inspect.getdoc(getattr(eventide, name))


# Parts of the builder are shown by ``stream``; exceptions and protocols' parts are shown where they are used.
SHOWN_ELSEWHERE = {
    *(
        "Stream",
        "Pipeline",
        "Query",
        "QueryOutputs",
        "Accumulator",
        "Parts",
        "DataError",
        "EventideError",
        "PlanError",
        "Watermark",
    ),
}


@pytest.mark.parametrize("name", sorted(set(PUBLIC) - SHOWN_ELSEWHERE))
def test_a_public_name_has_an_example_that_is_run(name: str) -> None:
    assert doctest.DocTestParser().get_examples(inspect.getdoc(getattr(eventide, name)) or "")


def test_importing_the_package_does_not_import_spark() -> None:
    import subprocess
    import sys

    code = "import sys, eventide; sys.exit(any(m.split('.')[0] in ('pyspark', 'pandas') for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


LIFETIME_RULES = re.compile(
    r"\bc?\.?(END|TIME)[\])]+ *(<|>)=? *(moment\.|was\b|watermark\b)|\bend *<= *(moment\.|was\b|watermark\b)"
)


@pytest.mark.parametrize("path", CORE_FILES, ids=name_of)
def test_the_rules_of_lateness_are_in_one_place(path: Path) -> None:
    found = LIFETIME_RULES.findall(path.read_text(encoding="utf-8"))
    assert not found or path.name == "lifetime.py", "use is_late, is_complete or Lifetime of windows/lifetime.py"
