"""YAML with its places: every value knows the line it stands on."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from eventide.errors import testing as errors

try:
    import yaml
except ImportError:  # pragma: no cover - the extra is installed wherever tests run
    raise errors.missing_package("Transcripts", "PyYAML", "testing") from None

Path: TypeAlias = tuple[str | int, ...]


class _Core(yaml.SafeLoader):
    """YAML 1.2's core schema: ``12:00`` and ``on`` are text, which YAML 1.1 takes for 720 and true."""


_Core.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.endswith((":null", ":merge"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _tag, _pattern, _first in (
    ("bool", r"true|false", "tf"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=e))(?:e[-+]?[0-9]+)?|\.nan", "-+.0123456789"),
):
    _Core.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})$"), list(_first))


@dataclass
class Document:
    """A file's content as plain data, and the line of everything in it."""

    name: str
    content: Any
    lines: dict[Path, int] = field(default_factory=dict)

    def place(self, path: Path) -> str:
        """``file:line`` of what stands at ``path``, or of the nearest thing around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return f"{self.name}:{self.lines.get(path, 1)}"


def read_document(text: str, name: str) -> Document:
    """Parse YAML. A key that stands twice is refused: YAML would silently drop the first."""
    loader = _Core(text)
    try:
        root = loader.get_single_node()
        document = Document(name, None)
        document.content = None if root is None else _construct(loader, root, (), document)
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        place = f"{name}:{mark.line + 1}" if mark else name
        mend = "Text with a colon, or that begins with '-' or '[', goes into quotes or into a block after '|'."
        raise errors.bad_transcript(place, f"this is not YAML: {problem.problem}.", mend) from None
    finally:
        loader.dispose()
    return document


def read_value(text: str) -> Any:
    """One value: a number, ``true``, ``null``, ``[a, b]``, or text.

    >>> [read_value(text) for text in ("5", "2.5", "null", "12:00", "[a, 1]")]
    [5, 2.5, None, '12:00', ['a', 1]]
    """
    try:
        return yaml.load(text, Loader=_Core)
    except yaml.YAMLError:
        return text


def _construct(loader: _Core, node: yaml.Node, path: Path, document: Document) -> Any:
    block = isinstance(node, yaml.ScalarNode) and node.style in ("|", ">")
    document.lines[path] = node.start_mark.line + (2 if block else 1)
    if isinstance(node, yaml.SequenceNode):
        return [_construct(loader, child, (*path, i), document) for i, child in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        return loader.construct_object(node)
    content = {}
    for key_node, child in node.value:
        key = str(loader.construct_object(key_node))
        if key in content:
            line = key_node.start_mark.line + 1
            raise errors.bad_transcript(f"{document.name}:{line}", f"the key {key!r} stands here for the second time.")
        content[key] = _construct(loader, child, (*path, key), document)
        document.lines[(*path, key)] = max(document.lines[(*path, key)], key_node.start_mark.line + 1)
    return content
