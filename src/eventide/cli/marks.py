"""``eventide marks``: streams whose writers declare time."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eventide._databases import without_password
from eventide.cli import terminal as screen
from eventide.errors import PlanError

if TYPE_CHECKING:
    from eventide.marks.segments import Segments
    from eventide.marks.streams import Stream


app = typer.Typer(
    help="Streams whose writers declare time: segments, writers, marks, and the controller.",
    epilog="An address is STORE#STREAM, such as sqlite:///shop.db#orders or https://marks.shop:8443#orders.",
    no_args_is_help=True,
)

Address = Annotated[str, typer.Argument(help="STORE#STREAM, such as sqlite:///shop.db#orders.")]
Token = Annotated[str | None, typer.Option(envvar="EVENTIDE_TOKEN", help="The token of a controller.")]
Json = Annotated[bool, typer.Option("--json", help="Print a JSON object for each row on stdout.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]

# As Spark spells them, also in ?schema= of a source.
_TYPES = ("string", "boolean", "int", "bigint", "float", "double", "timestamp", "date", "binary")


@app.command(epilog="Example: eventide marks streams sqlite:///shop.db")
def streams(
    store: Annotated[str, typer.Argument(help="The store, such as sqlite:///shop.db.")],
    token: Token = None,
    json: Json = False,
) -> None:
    """List the streams of a store."""
    from eventide.marks.streams import list_streams

    if "#" in store:
        url, _, name = store.rpartition("#")
        raise PlanError(f"Name the store without #{name}: eventide marks streams {without_password(url)}")
    check_store(store)
    rows = [_stream(_opened(f"{store}#{name}", token)) for name in list_streams(store, token=token)]
    _print_rows(rows, ("stream", "segments", "events", "writers", "marks", "time"), json=json)


@app.command(epilog="Example: eventide marks create sqlite:///shop.db#orders -c ts:timestamp -c shop:string")
def create(
    address: Address,
    column: Annotated[list[str], typer.Option("--column", "-c", help=f"NAME:TYPE; types: {', '.join(_TYPES)}.")],
    segments: Annotated[int, typer.Option(help="The initial number of segments.", min=1)] = 1,
    writer_timeout: Annotated[str, typer.Option(help="Drop a writer after this time without a note.")] = "1 minute",
    mark_every: Annotated[str, typer.Option(help="The time between marks.")] = "5 seconds",
    token: Token = None,
) -> None:
    """Create a stream."""
    from eventide.marks.streams import create_stream

    check_directory(address)
    stream = create_stream(
        address,
        schema=_schema(column),
        segments=segments,
        writer_timeout=writer_timeout,
        mark_every=mark_every,
        token=token,
    )
    typer.echo(stream.address)


@app.command(epilog="Example: eventide marks writers sqlite:///shop.db#orders")
def writers(address: Address, token: Token = None, json: Json = False) -> None:
    """List the last time that each writer noted. The writer with the least time holds the next mark back."""
    from eventide.time import format_duration, format_instant

    stream = _opened(address, token)
    now = stream.store.now()
    rows = [
        {
            "writer": note.writer,
            "time": format_instant(note.time),
            "noted": f"{format_duration(max(now - note.at, 0) // 1_000_000 * 1_000_000)} ago",
            "position": _position(note.position),
            "status": "closed" if note.closed else "open",
        }
        for note in sorted(stream.store.notes(stream.name), key=lambda note: note.time)
    ]
    _print_rows(rows, ("writer", "time", "noted", "position", "status"), json=json)


@app.command(epilog="Example: eventide marks marks sqlite:///shop.db#orders --last 5")
def marks(
    address: Address,
    last: Annotated[int, typer.Option(help="The number of newest marks.", min=1)] = 20,
    token: Token = None,
    json: Json = False,
) -> None:
    """List the marks: all events before a time are before a cut."""
    from eventide.time import format_instant

    stream = _opened(address, token)
    newest = stream.store.last_mark(stream.name)
    newest_marks = [] if newest is None else stream.marks(after=max(newest.number - last, 0))
    rows = [
        {
            "mark": mark.number,
            "lower": format_instant(mark.lower),
            "upper": format_instant(mark.upper),
            "cut": _position(mark.cut),
            "created": format_instant(mark.at),
        }
        for mark in newest_marks
    ]
    _print_rows(rows, ("mark", "lower", "upper", "cut", "created"), json=json)


@app.command(epilog="Example: eventide marks segments sqlite:///shop.db#orders")
def segments(address: Address, token: Token = None, json: Json = False) -> None:
    """List the segments with their keys, predecessors and number of events."""
    stream = _opened(address, token)
    _print_rows(_segments(stream, stream.segments), ("segment", "keys", "follows", "events", "status"), json=json)


@app.command(
    epilog="Examples: eventide marks scale sqlite:///shop.db#orders --split 0 --into 4; "
    "eventide marks scale sqlite:///shop.db#orders --merge 1 --merge 2"
)
def scale(
    address: Address,
    split: Annotated[int | None, typer.Option(help="The segment to split.")] = None,
    into: Annotated[int, typer.Option(help="The number of parts.", min=2)] = 2,
    merge: Annotated[list[int] | None, typer.Option(help="A segment to merge with its neighbours. Repeatable.")] = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Split a segment, or merge several. The order of events of a key is preserved."""
    if (split is None) == (not merge):
        raise PlanError("Name either --split SEGMENT [--into N], or --merge SEGMENT --merge SEGMENT.")
    if merge and len(set(merge)) < 2:
        raise PlanError("Name at least two neighbouring segments: --merge SEGMENT --merge SEGMENT.")
    stream = _opened(address, token)
    after = stream.merge(*(merge or ())) if split is None else stream.split(split, into=into)
    _print_rows(_segments(stream, after), ("segment", "keys", "follows", "events", "status"), json=json)


@app.command(epilog="Example: eventide marks seal sqlite:///shop.db#orders")
def seal(address: Address, yes: Yes = False, token: Token = None) -> None:
    """End a stream: no event can be written any more, and event time ends once all events are read."""
    stream = _opened(address, token)
    _confirm(f"End the stream {stream.address}? It cannot be opened again.", yes)
    stream.seal()
    typer.echo("Sealed.", err=True)


@app.command(epilog="Example: eventide marks truncate sqlite:///shop.db#orders --before 2026-03-01T12:00Z")
def truncate(
    address: Address,
    mark: Annotated[int | None, typer.Option(help="Drop all events before the cut of this mark.")] = None,
    before: Annotated[
        str | None, typer.Option(help="Drop events before the last mark of this time or earlier.")
    ] = None,
    yes: Yes = False,
    token: Token = None,
) -> None:
    """Drop the oldest events, up to the cut of a mark."""
    from eventide.time import format_instant, instant

    if (mark is None) == (before is None):
        raise PlanError("Name either --mark NUMBER or --before TIME.")
    stream = _opened(address, token)
    latest = None if before is None else instant(before, what="--before")
    fitting = [
        candidate
        for candidate in stream.marks()
        if candidate.number == mark or (latest is not None and candidate.lower <= latest)
    ]
    if not fitting:
        raise PlanError(
            f"Stream {stream.name!r} has no mark "
            f"{str(mark) if before is None else f'at {before} or before'}. See: eventide marks marks ADDRESS"
        )
    chosen = fitting[-1]
    cut = f"mark {chosen.number} ({format_instant(chosen.lower)}), cut {_position(chosen.cut)}"
    _confirm(f"Drop all events of {stream.address} before {cut}?", yes)
    stream.truncate(chosen.cut)
    typer.echo(f"Truncated at {cut}.", err=True)


@app.command(epilog="Example: eventide marks delete sqlite:///shop.db#orders")
def delete(address: Address, yes: Yes = False, token: Token = None) -> None:
    """Delete a stream and all of its events."""
    stream = _opened(address, token)
    _confirm(f"Delete the stream {stream.address} and all of its events?", yes)
    stream.delete()
    typer.echo("Deleted.", err=True)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    epilog="Example: eventide marks controller --help",
)
def controller(context: typer.Context) -> None:
    """Start a controller, which turns the notes of writers into marks. Its options: controller --help."""
    from eventide.marks.controller.__main__ import main

    raise typer.Exit(main(context.args, program="eventide marks controller"))


def _opened(address: str, token: str | None) -> Stream:
    from eventide.marks.streams import open_stream

    check_store(address.rpartition("#")[0])
    return open_stream(address, token=token)


def _stream(stream: Stream) -> dict[str, Any]:
    from eventide.time import format_instant

    info, mark = stream.info(), stream.store.last_mark(stream.name)
    sealed = all(segment.sealed for segment in info.segments.open)
    return {
        "stream": stream.name,
        "segments": len(info.segments.open),
        "events": sum(stream.store.lengths(stream.name).values()),
        "writers": len(stream.store.notes(stream.name)),
        "marks": 0 if mark is None else mark.number,
        "time": "ended" if sealed else None if mark is None else format_instant(mark.lower),
    }


def _segments(stream: Stream, segments: Segments) -> list[dict[str, Any]]:
    lengths = stream.store.lengths(stream.name)
    return [
        {
            "segment": segment.number,
            "keys": f"[{segment.low:g}, {segment.high:g})",
            "follows": ", ".join(map(str, segment.predecessors)),
            "events": lengths[segment.number],
            "status": "sealed" if segment.sealed or segments.successors(segment.number) else "open",
        }
        for segment in segments.all
    ]


def _schema(columns: list[str]) -> Any:
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "boolean": pa.bool_(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "timestamp": pa.timestamp("us", "UTC"),
        "date": pa.date32(),
        "binary": pa.binary(),
    }
    fields = []
    for text in columns:
        name, _, kind = text.rpartition(":")
        if not name or kind not in types:
            raise PlanError(f"--column {text!r}: write NAME:TYPE with a type of: {', '.join(_TYPES)}.")
        fields.append((name, types[kind]))
    return pa.schema(fields)


def _print_rows(rows: list[dict[str, Any]], columns: tuple[str, ...], *, json: bool) -> None:
    if json:
        for row in rows:
            screen.print_json(row)
    else:
        screen.stdout_console().print(screen.table(*columns, rows=[[row[name] for name in columns] for row in rows]))


def _position(position: Any) -> str:
    return ", ".join(f"{number}:{offset}" for number, offset in sorted(position.items()))


def _confirm(question: str, yes: bool) -> None:
    if not yes:
        typer.confirm(question, abort=True, err=True)


def check_store(url: str) -> None:
    """Reject a file that does not exist or is another database. SQLite would create it."""
    from eventide._databases import sqlite_path

    if not url.startswith("sqlite:"):
        return
    place = Path(sqlite_path(url))
    if not place.is_file():
        raise PlanError(
            f"There is no store {url!r}. Check the path, or create its first stream: eventide marks create."
        )
    if not _holds_streams(place):
        raise PlanError(
            f"{url!r} is a database without streams. Check the path, or create a store with its first stream: "
            "eventide marks create."
        )


def _holds_streams(place: Path) -> bool:
    try:
        with closing(sqlite3.connect(f"{place.resolve().as_uri()}?mode=ro", uri=True)) as database:
            query = "SELECT count(*) FROM sqlite_master WHERE name = 'eventide_streams'"
            return bool(database.execute(query).fetchone()[0])
    except sqlite3.Error:  # not a database, or not readable: the store reports it
        return True


def check_directory(address: str) -> None:
    """Reject a store in a directory that does not exist."""
    from eventide._databases import sqlite_path

    if address.startswith("sqlite:"):
        folder = Path(sqlite_path(address.rpartition("#")[0] or address)).parent
        if not folder.is_dir():
            raise PlanError(f"There is no directory {str(folder)!r}. Create it, or correct the path of the store.")
