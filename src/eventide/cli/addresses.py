"""How sources and sinks are written on a command line: ``KIND:PLACE``, and options behind a question mark.

``parquet:/data/orders``, ``kafka:orders@broker:9092``, ``sqlite:///panes.db#revenue``, ``console``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import unquote

from eventide.errors import cli as errors

End = Literal["source", "sink", "late", "dead"]

FILES = ("parquet", "json", "csv", "orc")
SOURCES = (*FILES, "kafka", "eventide", "rate")
SINKS = ("console", "noop", "files", *FILES, "sqlite", "postgresql", "kafka", "eventide")
_BARE = ("console", "noop", "rate")
_FORMS = {
    "kafka": "kafka:TOPIC@HOST:PORT, such as kafka:orders@broker:9092",
    "eventide": "eventide:STORE#STREAM, such as eventide:sqlite:///shop.db#orders",
    "rate": "rate:ROWS_PER_SECOND, such as rate:10",
    "sqlite": "sqlite:///FILE#TABLE, such as sqlite:///panes.db#revenue",
    "postgresql": "postgresql://USER@HOST/DATABASE#TABLE",
}
_OPTIONS_OF: Mapping[str, tuple[str, ...]] = {
    "console": ("rows",),
    "noop": (),
    "eventide": ("routing_key", "writer_id", "token"),
}
# A ? can be part of a path: only what looks like options behind the last one is taken as such.
_OPTIONS = re.compile(r"\?(\w[\w.]*=[^&]*(?:&\w[\w.]*=[^&]*)*)$")
_NAMED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


@dataclass(frozen=True)
class Address:
    """A source or a sink that was named."""

    kind: str
    place: str
    options: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None  # of a table, a stream, or the servers of a topic


def read_address(text: str, end: End) -> Address:
    """An address, or why it is none.

    >>> read_address("kafka:orders@one:9092,two:9092", "source")
    Address(kind='kafka', place='orders', options={}, name='one:9092,two:9092')
    >>> read_address("sqlite:///panes.db#revenue", "sink")
    Address(kind='sqlite', place='sqlite:///panes.db', options={}, name='revenue')
    >>> read_address("parquet:/data/2026-0?/*?mergeSchema=true", "source")
    Address(kind='parquet', place='/data/2026-0?/*', options={'mergeSchema': 'true'}, name=None)
    >>> read_address("parket:/data", "source")
    Traceback (most recent call last):
    eventide.errors.kinds.PlanError: --source 'parket:/data': there is no kind 'parket'. Did you mean 'parquet'? ...
    """
    kind, colon, place = text.partition(":")
    kind = "postgresql" if kind == "postgres" else kind
    known = SOURCES if end == "source" else SINKS
    if kind not in known:
        raise (errors.not_here if kind in (*SOURCES, *SINKS) else errors.unknown_address)(text, end, known)
    if (not colon or not place) and kind not in _BARE:
        raise errors.bad_address(text, end, _FORMS.get(kind, f"{kind}:PATH, such as {kind}:/data/orders"))
    if kind == "sqlite" and not re.match(r"sqlite:///(?!:memory:)[^#]", text):
        raise errors.bad_address(text, end, _FORMS[kind])
    if kind in ("sqlite", "postgresql"):
        url, _, table = text.partition("#")
        return Address(kind, url, name=table or None)
    place, options = _apart(place)
    if end != "source":
        _check_options(text, kind, options, end)
    if kind == "eventide":
        return _stream(text, place, options, end)
    if kind == "kafka":
        topic, at, servers = place.partition("@")
        if not (topic and at and servers):
            raise errors.bad_address(text, end, _FORMS[kind])
        return Address(kind, topic, options, servers)
    if kind == "rate" and place and not re.fullmatch(r"[1-9]\d*", place):
        raise errors.bad_address(text, end, _FORMS[kind])
    return Address(kind, place, options)


def read_sources(texts: list[str]) -> dict[str | None, Address]:
    """Sources by the names of their inputs; a single one needs no name.

    >>> list(read_sources(["left=parquet:/a", "right=parquet:/b"]))
    ['left', 'right']
    """
    found: dict[str | None, Address] = {}
    for text in texts:
        named = _NAMED.match(text)
        name, rest = (named[1], named[2]) if named else (None, text)
        if name is None and len(texts) > 1:
            raise errors.unnamed_sources()
        if name in found:
            raise errors.two_sources(str(name))
        found[name] = read_address(rest, "source")
    return found


def _apart(place: str) -> tuple[str, dict[str, str]]:
    found = _OPTIONS.search(place)
    if found is None:
        return place, {}
    pairs = (option.partition("=") for option in found[1].split("&"))
    return place[: found.start()], {name: unquote(value) for name, _, value in pairs}


def _check_options(text: str, kind: str, options: Mapping[str, str], end: End) -> None:
    """Refuse options that a sink of ours does not have; those of files and topics are Spark's."""
    for name, value in options.items():
        if (kind in _OPTIONS_OF and name not in _OPTIONS_OF[kind]) or (kind in FILES and name == "format"):
            raise errors.unknown_option(text, end, name, _OPTIONS_OF.get(kind, ()))
        if kind == "console" and not re.fullmatch(r"0*[1-9]\d*", value):
            raise errors.bad_address(text, end, "console:?rows=50, a number of rows of at least 1")


def _stream(text: str, place: str, options: dict[str, str], end: End) -> Address:
    url, hash_, name = place.rpartition("#")
    if not (url and hash_ and name):
        raise errors.bad_address(text, end, _FORMS["eventide"])
    return Address("eventide", place, options, name)
