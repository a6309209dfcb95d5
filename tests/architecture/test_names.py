"""Names: modules are nouns of the field, and each name has one meaning."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from eventide.panes import RESERVED
from tests.architecture.test_layers import ALL_FILES, SOURCE, name_of, parsed, part_of

LONGEST = 430
NOUNS = {"binding", "grouping", "tumbling_sliding"}  # words of the field that end like gerunds
EVERYDAY = re.compile(
    r"(^|_)(desk|held|hidden|later|told|said|own|one|found|made|given|kept|saved|stood|reach|utils?|helpers?|common|base)(_|$)"
)
# One concept in several layers: its rule, its operator, its clause of SQL.
SHARED_NAMES = {
    "__init__",
    "__main__",
    "errors",
    "calendar",
    "control",
    "deadlines",
    "emission",
    "interval_join",
    "memory",
    "metrics",
    "sessions",
    "store",
    "query",
    "rows",
    "run",
    "streams",
}
# Everyday words for which the field has terms: emitted, reported, declared, fixed, next to, any, retracted, never.
PROSE = re.compile(r"\b(un)?(told|said)\b|\bmend(s|ed|ing)?\b|\b(beside|whatever|taken back|passed by|for ever)\b")
TESTS = Path(__file__).parents[1]
TEST_FILES = sorted(TESTS.rglob("test_*.py"))
UNNAMED = {"one", "own", "found", "said", "told", "made", "given"}
VAGUE = {"gone", "behind"}  # of the package: late, expired or retracted rows
# The same concept on two hosts or in two packages, with the module as a qualifier.
SHARED_CLASSES = {
    "MemoryStore": "a store in memory: of marks, and of a standalone operator",
    "Store": "the contract of a store: of marks, and of a standalone operator",
    "Stream": "rows in a plan, and a stream in a store of marks; both are public",
}
INTERNAL = re.compile(r"__[a-z][a-z_]*[a-z]$")


@pytest.mark.parametrize("path", ALL_FILES, ids=name_of)
def test_a_module_is_named_by_a_noun(path: Path) -> None:
    stem = path.stem
    assert stem in NOUNS or not stem.endswith("ing"), "no gerunds"
    assert not EVERYDAY.search(stem), "no participles and no everyday words"


@pytest.mark.parametrize("path", ALL_FILES, ids=name_of)
def test_a_module_has_one_idea_and_fits_in_a_reader_s_head(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= LONGEST


def test_a_file_name_has_one_meaning() -> None:
    places = defaultdict(set)
    for path in ALL_FILES:
        places[path.stem].add(name_of(path))
    repeated = {stem: sorted(paths) for stem, paths in places.items() if len(paths) > 1 and stem not in SHARED_NAMES}
    assert not repeated
    assert {stem for stem in SHARED_NAMES if len(places[stem]) < 2} == set(), "an exception without a use"


def test_a_class_name_has_one_meaning() -> None:
    places = defaultdict(set)
    for path in ALL_FILES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef):
                places[node.name].add(name_of(path))
    repeated = {name: sorted(paths) for name, paths in places.items() if len(paths) > 1}
    assert {name: paths for name, paths in repeated.items() if name not in SHARED_CLASSES} == {}
    assert set(SHARED_CLASSES) <= set(repeated), "an exception without a use"


def test_an_internal_column_is_named_once() -> None:
    """In one module, as a constant: in ``_columns.py`` if several modules use it."""
    places = defaultdict(list)
    for path in ALL_FILES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and INTERNAL.match(node.value):
                places[node.value].append(f"{name_of(path)}:{node.lineno}")
    assert any("_columns.py" in place for place in places["__time"])
    assert not {name: lines for name, lines in places.items() if len(lines) > 1}


def test_exception_types_are_in_one_module_per_package() -> None:
    for path in ALL_FILES:
        for node in parsed(path).body:
            bases = [ast.unparse(base) for base in node.bases] if isinstance(node, ast.ClassDef) else []
            if any(base in ("EventideError", "PlanError", "DataError") for base in bases):
                assert path.name == "errors.py", f"{name_of(path)}: {node.name}"


def names_of_values(tree: ast.AST) -> list[tuple[str, int]]:
    """Return the variables, attributes, parameters and functions that a module defines, with their lines."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append((node.id, node.lineno))
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.append((node.attr, node.lineno))
        elif isinstance(node, ast.arg):
            names.append((node.arg, node.lineno))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names.append((node.name, node.lineno))
    return names


def test_a_value_is_named_by_what_it_holds() -> None:
    """Neither in the package nor in its tests a value or a function is called ``one`` or ``found``."""
    tests = sorted(TESTS.rglob("*.py"))
    words = [(path, UNNAMED | VAGUE) for path in ALL_FILES] + [(path, UNNAMED) for path in tests]
    places = [
        f"{path}:{line}: {name}"
        for path, names in words
        for name, line in names_of_values(parsed(path))
        if name in names
    ]
    assert not places


@pytest.mark.parametrize("code", ["found = 1", "for found in []: pass", "self.found = 1", "lambda found: 1"])
def test_the_name_of_a_value_is_recognised(code: str) -> None:
    assert "found" in {name for name, _ in names_of_values(ast.parse(code))}


# These name headers of messages, properties of tables and lines of a history, which are not columns of panes.
OTHER_NAMES = ("sinks", "dashboards")


@pytest.mark.parametrize("path", ALL_FILES, ids=name_of)
def test_a_column_of_panes_is_named_once(path: Path) -> None:
    names = [n.value for n in ast.walk(parsed(path)) if isinstance(n, ast.Constant) and n.value in RESERVED]
    assert not names or name_of(path) == "panes.py" or part_of(path) in OTHER_NAMES, "use the constant of panes.py"


@pytest.mark.parametrize("path", ALL_FILES, ids=name_of)
def test_an_ignored_type_error_has_a_reason(path: Path) -> None:
    """The reason is a comment on the same line, or a line of comment just above."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for above, line in pairwise(["", *lines]):
        if "# type: ignore" in line:
            reason = line.partition("# type: ignore")[2].partition("#")[2]
            assert reason.strip() or above.lstrip().startswith("# "), line


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=lambda path: path.relative_to(TESTS).as_posix())
def test_an_ignored_type_error_in_a_test_names_its_kind(path: Path) -> None:
    """Wrong types are often the subject of a test, so the kind of the error is reason enough."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    assert not [comment for comment in comments if re.search(r"type: ignore(?!\[[a-z-]+(, ?[a-z-]+)*\])", comment)]


def prose(text: str) -> list[str]:
    """Return the comments and the strings of a module: docstrings, messages, lines of explain()."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    kinds = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    return [" ".join(token.string.split()) for token in tokens if token.type in kinds]


def everyday_words(text: str) -> set[str]:
    return {match[0].lower() for match in PROSE.finditer(text.lower())}


@pytest.mark.parametrize("path", ALL_FILES, ids=name_of)
def test_prose_uses_the_terms_of_the_field(path: Path) -> None:
    words = {word for text in prose(path.read_text(encoding="utf-8")) for word in everyday_words(text)}
    assert not words, "write it in the terms of Flink, Beam and Spark"


@pytest.mark.parametrize("path", TEST_FILES, ids=lambda path: path.relative_to(TESTS).as_posix())
def test_a_test_is_named_in_the_terms_of_the_field(path: Path) -> None:
    names = [node.name for node in ast.walk(parsed(path)) if isinstance(node, ast.FunctionDef)]
    names = [name for name in names if name.startswith("test_")]
    assert not {name for name in names if everyday_words(name.replace("_", " "))}


def test_everyday_words_are_recognised() -> None:
    code = """def f():
        '''At expiry, what was untold
        is told.'''
        raise E(f"kept for ever beside {x}")  # until it is mended
    """
    words = {word for text in prose(code) for word in everyday_words(text)}
    assert words == {"untold", "told", "for ever", "beside", "mended"}
    assert not everyday_words("for every bundle; besides")


def test_there_are_modules_to_check() -> None:
    assert TEST_FILES
    assert len(ALL_FILES) > 150 and SOURCE.name == "eventide"
