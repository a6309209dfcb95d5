"""Addresses of sources and sinks, the same in Python and on the command line.

``parquet:/data/orders``, ``out/panes/``, ``kafka:orders@broker:9092``, ``sqlite:///panes.db#revenue``, ``console``.
Options follow a question mark: ``csv:/data/in?header=true``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Literal, TypeAlias
from urllib.parse import unquote

from eventide._databases import without_password
from eventide.errors import PlanError

End: TypeAlias = Literal["source", "sink", "late", "dead"]

FILES = ("parquet", "json", "csv", "orc")
TABLES = ("sqlite", "postgresql")
SOURCES = (*FILES, "kafka", "eventide", "rate")
SINKS = ("console", "noop", *FILES, *TABLES, "delta", "iceberg", "kafka", "eventide")
_BARE = ("console", "noop", "rate")
_OTHER_KINDS = {"postgres": "postgresql", "print": "console"}
_SUFFIXES = {f".{kind}": kind for kind in FILES} | {".jsonl": "json", ".ndjson": "json"}
_DATABASES = (".db", ".sqlite", ".sqlite3")
_FILE_SYSTEMS = (
    *("file", "hdfs", "viewfs", "webhdfs", "dbfs", "s3", "s3a", "s3n", "gs"),
    *("abfs", "abfss", "wasb", "wasbs", "az", "oss", "cosn"),
)
_FORMS = {
    "kafka": "kafka:TOPIC@HOST:PORT, such as kafka:orders@broker:9092",
    "eventide": "eventide:STORE#STREAM, such as eventide:sqlite:///shop.db#orders",
    "rate": "rate:ROWS_PER_SECOND, such as rate:10",
    "sqlite": "sqlite:///FILE#TABLE, such as sqlite:///panes.db#revenue",
    "postgresql": "postgresql://USER@HOST/DATABASE#TABLE",
    "delta": "delta:PATH, such as delta:/data/revenue or delta:s3://lake/revenue",
    "iceberg": "iceberg:NAMESPACE.TABLE, such as iceberg:shop.revenue?catalog=prod",
}
_OPTIONS_OF: Mapping[str, tuple[str, ...]] = {
    "console": (),
    "noop": (),
    "eventide": ("routing_key", "writer_id", "token"),
    "iceberg": ("catalog",),
}
# A ? can be part of a path: only what looks like options behind the last one is taken as such.
_OPTIONS = re.compile(r"\?(\w[\w.]*=[^&]*(?:&\w[\w.]*=[^&]*)*)$")
_NAMED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_SCHEME = re.compile(r"([A-Za-z][\w+.-]*):")
_TABLE = re.compile(r"#([^#/@]*)$")  # a # elsewhere is part of a path or of a password


@dataclass(frozen=True)
class Address:
    """A source or a sink that was named."""

    kind: str
    place: str
    options: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None  # of a table, a stream, or the servers of a topic


def read_address(text: str, end: End) -> Address:
    """Parse an address. The error about an invalid one shows the syntax.

    >>> read_address("kafka:orders@one:9092,two:9092", "source")
    Address(kind='kafka', place='orders', options={}, name='one:9092,two:9092')
    >>> read_address("sqlite:///panes.db#revenue", "sink")
    Address(kind='sqlite', place='sqlite:///panes.db', options={}, name='revenue')
    >>> read_address("parquet:/data/2026-0?/*?mergeSchema=true", "source")
    Address(kind='parquet', place='/data/2026-0?/*', options={'mergeSchema': 'true'}, name=None)

    A path without a kind has the format of its suffix, or is a directory of Parquet files.

    >>> read_address("out/panes/", "sink"), read_address("s3a://shop/orders.csv?header=true", "source")
    (Address(kind='parquet', place='out/panes/', options={}, name=None),
     Address(kind='csv', place='s3a://shop/orders.csv', options={'header': 'true'}, name=None))
    >>> read_address("parket:/data", "source")
    Traceback (most recent call last):
    eventide.errors.PlanError: The source 'parket:/data': there is no kind 'parket'. Did you mean 'parquet'? ...
    """
    kind, colon, place = text.partition(":")
    known = SOURCES if end == "source" else SINKS
    if kind not in (*SOURCES, *SINKS):
        return _path(text, end, known)
    if kind not in known:
        raise not_here(text, end, known)
    if (not colon or not place) and kind not in _BARE:
        raise _bad_address(text, end, form_of(kind))
    if kind in TABLES:
        return _table(text, kind, end)
    place, options = _apart(place)
    if end != "source":
        _check_options(text, kind, options, end)
    if kind == "eventide":
        return _stream(text, place, options, end)
    if kind == "kafka":
        topic, at, servers = place.partition("@")
        if not (topic and at and servers):
            raise _bad_address(text, end, _FORMS[kind])
        return Address(kind, topic, options, servers)
    if kind == "rate" and place and not re.fullmatch(r"[1-9]\d*", place):
        raise _bad_address(text, end, _FORMS[kind])
    return Address(kind, place, options)


def read_sources(texts: Sequence[str]) -> dict[str | None, Address]:
    """Return sources by the names of their inputs; a single source needs no name.

    >>> list(read_sources(["left=parquet:/a", "right=parquet:/b"]))
    ['left', 'right']
    """
    sources: dict[str | None, Address] = {}
    for text in texts:
        named = _NAMED.match(text)
        name, rest = (named[1], named[2]) if named else (None, text)
        if name is None and len(texts) > 1:
            raise PlanError("With several sources each has a name: orders=parquet:/a payments=parquet:/b.")
        if name in sources:
            raise PlanError(f"The source {name!s}=… is given twice. Each input has one source.")
        sources[name] = read_address(rest, "source")
    return sources


def split_table(url: str) -> tuple[str, str | None]:
    """Return the address of a database and the table that follows ``#``, if it names one.

    >>> split_table("postgresql://me@db/shop?sslmode=require#sales.revenue")
    ('postgresql://me@db/shop?sslmode=require', 'sales.revenue')
    >>> split_table("sqlite:///night#shift/panes.db")
    ('sqlite:///night#shift/panes.db', None)
    """
    named = _TABLE.search(url)
    return (url, None) if named is None else (url[: named.start()], named[1] or None)


def form_of(kind: str) -> str:
    """Return how an address of a kind is written."""
    return _FORMS.get(kind, f"{kind}:PATH, such as {kind}:/data/orders")


def _path(text: str, end: End, known: Sequence[str]) -> Address:
    """Return files by their path alone: the suffix is the format, a directory has Parquet files."""
    place, options = _apart(text)
    scheme = _SCHEME.match(text)
    suffix = PurePosixPath(place.removesuffix(".gz")).suffix.lower()
    if scheme is not None and scheme[1].lower() not in _FILE_SYSTEMS:
        raise _unknown_address(text, end, known)
    if suffix in _DATABASES or _TABLE.search(place):
        raise _bad_address(text, end, form_of("sqlite"))
    if "/" not in place and suffix not in _SUFFIXES:
        raise _unknown_address(text, end, known)
    return Address(_SUFFIXES.get(suffix, "parquet"), place, options)


def _table(text: str, kind: str, end: End) -> Address:
    url, table = split_table(text)
    if kind == "sqlite" and not re.match(r"sqlite:///(?!:memory:).", url):
        raise _bad_address(text, end, _FORMS[kind])
    return Address(kind, url, name=table)


def _apart(place: str) -> tuple[str, dict[str, str]]:
    options = _OPTIONS.search(place)
    if options is None:
        return place, {}
    pairs = (option.partition("=") for option in options[1].split("&"))
    return place[: options.start()], {name: unquote(value) for name, _, value in pairs}


def _check_options(text: str, kind: str, options: Mapping[str, str], end: End) -> None:
    """Reject options that a sink of ours does not have; those of files and topics are Spark's."""
    for name in options:
        if (kind in _OPTIONS_OF and name not in _OPTIONS_OF[kind]) or (kind in FILES and name == "format"):
            raise _unknown_option(text, end, name, _OPTIONS_OF.get(kind, ()))


def _stream(text: str, place: str, options: dict[str, str], end: End) -> Address:
    url, hash_, name = place.rpartition("#")
    if not (url and hash_ and name):
        raise _bad_address(text, end, _FORMS["eventide"])
    return Address("eventide", place, options, name)


_OUTPUTS = {"late": "sink of late rows", "dead": "sink of dead letters"}


def _unknown_address(text: str, end: str, known: Sequence[str]) -> PlanError:
    """An address that begins with no known kind."""
    word = text.partition(":")[0]
    kind = _OTHER_KINDS.get(word)
    if kind is not None and kind in known:
        rest = text.removeprefix(word)
        form = without_password(kind + rest) if rest or kind in _BARE else form_of(kind)
        return PlanError(f"{_named(text, end)}: there is no kind {word!r}. Write {form}.")
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.7)
    meant = f" Did you mean {near[0]!r}?" if near else ""
    hint = f" For a directory write {word}/." if re.fullmatch(r"[\w-]+", text) else ""
    if text.startswith("jdbc:") or word in ("mysql", "mssql", "oracle", "mariadb", "duckdb", "snowflake"):
        hint = ' For other databases there is sinks.spark_format("jdbc", url=…, dbtable=…), which appends.'
    return PlanError(f"{_named(text, end)}: there is no kind {word!r}.{meant} Kinds are: {', '.join(known)}.{hint}")


def not_here(text: str, end: str, known: Sequence[str]) -> PlanError:
    """A kind that is known, but not for this end of a query."""
    word = text.partition(":")[0]
    what = "source" if end == "source" else "sink"
    return PlanError(f"{_named(text, end)}: {word} is no {what}. Use one of: {', '.join(known)}.")


def _bad_address(text: str, end: str, form: str) -> PlanError:
    """An address that is not complete."""
    return PlanError(f"{_named(text, end)}: write {form}.")


def _unknown_option(text: str, end: str, option: str, known: Sequence[str]) -> PlanError:
    """An option that a sink does not have."""
    takes = f"Its options are: {', '.join(known)}." if known else "Leave it out."
    if text.startswith("console"):
        takes = (
            f"sinks.console({option}=…) has it in Python, --limit on the command line." if option == "rows" else takes
        )
    return PlanError(f"{_named(text, end)}: there is no option {option!r} here. {takes}")


def _named(text: str, end: str) -> str:
    return f"The {_OUTPUTS.get(end, end)} {without_password(text)!r}"
