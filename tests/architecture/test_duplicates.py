"""A private function that several modules need is in one of them."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.architecture.test_layers import ALL_FILES, name_of, parsed

SHORT = 200  # characters of a syntax tree: less is a constant or a single call


def function_bodies(tree: ast.Module) -> list[tuple[str, str]]:
    """Return the name and the body of each function of a module that is no method, without its docstring."""
    bodies = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            bodies.append((node.name, ast.dump(ast.Module(body, []))))
    return bodies


def test_no_function_is_written_in_two_modules() -> None:
    places = defaultdict(list)
    for path in ALL_FILES:
        for name, body in function_bodies(parsed(path)):
            if len(body) > SHORT:
                places[body].append(f"{name_of(path)}: {name}")
    assert not [names for names in places.values() if len(names) > 1]


def test_a_docstring_does_not_make_a_function_another_one() -> None:
    first = function_bodies(ast.parse("def a(x):\n    return x + 1\n"))
    second = function_bodies(ast.parse("def b(x):\n    '''Add one.'''\n    return x + 1\n"))
    assert first[0][1] == second[0][1]
