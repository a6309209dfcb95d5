"""``eventide marks``: streams whose writers declare time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from eventide.cli import screen
from eventide.cli.stores import check_directory, check_store

if TYPE_CHECKING:
    from eventide.marks.segments import Segments
    from eventide.marks.streams import Stream

app = typer.Typer(
    help="Streams whose writers declare time: segments, writers, marks, and the controller.",
    epilog="An address is STORE#STREAM, such as sqlite:///shop.db#orders or https://marks.shop:8443#orders.",
    no_args_is_help=True,
)

Address = Annotated[str, typer.Argument(help="STORE#STREAM, such as sqlite:///shop.db#orders.")]
Token = Annotated[str | None, typer.Option(envvar="EVENTIDE_TOKEN", help="For a store behind a controller.")]
Json = Annotated[bool, typer.Option("--json", help="A JSON object a line on stdout.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

# As Spark spells them, also in ?schema= of a source.
_TYPES = ("string", "boolean", "int", "bigint", "float", "double", "timestamp", "date", "binary")


@app.command(epilog="Example: eventide marks streams sqlite:///shop.db")
def streams(
    store: Annotated[str, typer.Argument(help="The store, such as sqlite:///shop.db.")],
    token: Token = None,
    json: Json = False,
) -> None:
    """Show all streams of a store."""
    from eventide.errors import cli_marks as errors
    from eventide.marks.streams import list_streams

    if "#" in store:
        raise errors.store_without_stream(*store.rsplit("#", 1))
    check_store(store)
    rows = [_stream(_opened(f"{store}#{name}", token)) for name in list_streams(store, token=token)]
    _tell(rows, ("stream", "segments", "events", "writers", "marks", "time"), json=json)


@app.command(epilog="Example: eventide marks create sqlite:///shop.db#orders -c ts:timestamp -c shop:string")
def create(
    address: Address,
    column: Annotated[list[str], typer.Option("--column", "-c", help=f"NAME:TYPE; types: {', '.join(_TYPES)}.")],
    segments: Annotated[int, typer.Option(help="How many it begins with.", min=1)] = 1,
    writer_timeout: Annotated[str, typer.Option(help="A writer silent for so long is forgotten.")] = "1 minute",
    mark_every: Annotated[str, typer.Option(help="How often notes become a mark.")] = "5 seconds",
    token: Token = None,
) -> None:
    """Make a stream."""
    from eventide.marks.streams import create_stream

    check_directory(address)
    made = create_stream(
        address,
        schema=_schema(column),
        segments=segments,
        writer_timeout=writer_timeout,
        mark_every=mark_every,
        token=token,
    )
    typer.echo(made.address)


@app.command(epilog="Example: eventide marks writers sqlite:///shop.db#orders")
def writers(address: Address, token: Token = None, json: Json = False) -> None:
    """Show what each writer last said of time. The one with the least time holds the next mark back."""
    from eventide.time import format_duration, format_instant

    stream = _opened(address, token)
    now = stream.store.now()
    rows = [
        {
            "writer": note.writer,
            "time": format_instant(note.time),
            "said": f"{format_duration(max(now - note.at, 0) // 1_000_000 * 1_000_000)} ago",
            "position": _position(note.position),
            "standing": "closed" if note.closed else "open",
        }
        for note in sorted(stream.store.notes(stream.name), key=lambda note: note.time)
    ]
    _tell(rows, ("writer", "time", "said", "position", "standing"), json=json)


@app.command(epilog="Example: eventide marks marks sqlite:///shop.db#orders --last 5")
def marks(
    address: Address,
    last: Annotated[int, typer.Option(help="How many, the newest ones.", min=1)] = 20,
    token: Token = None,
    json: Json = False,
) -> None:
    """Show the marks: everything before a time lies before a cut."""
    from eventide.time import format_instant

    stream = _opened(address, token)
    newest = stream.store.last_mark(stream.name)
    found = [] if newest is None else stream.marks(after=max(newest.number - last, 0))
    rows = [
        {
            "mark": one.number,
            "lower": format_instant(one.lower),
            "upper": format_instant(one.upper),
            "cut": _position(one.cut),
            "made": format_instant(one.at),
        }
        for one in found
    ]
    _tell(rows, ("mark", "lower", "upper", "cut", "made"), json=json)


@app.command(epilog="Example: eventide marks segments sqlite:///shop.db#orders")
def segments(address: Address, token: Token = None, json: Json = False) -> None:
    """Show the segments: which keys each has, what it follows, and how many events it holds."""
    stream = _opened(address, token)
    _tell(_segments(stream, stream.segments), ("segment", "keys", "follows", "events", "standing"), json=json)


@app.command(
    epilog="Examples: eventide marks scale sqlite:///shop.db#orders --split 0 --into 4; "
    "eventide marks scale sqlite:///shop.db#orders --merge 1 --merge 2"
)
def scale(
    address: Address,
    split: Annotated[int | None, typer.Option(help="The segment whose keys are divided.")] = None,
    into: Annotated[int, typer.Option(help="Into how many.", min=2)] = 2,
    merge: Annotated[list[int] | None, typer.Option(help="Neighbouring segments that become one.")] = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Split a segment, or merge several. The order of each key's events stays."""
    from eventide.errors import cli_marks as errors

    if (split is None) == (not merge):
        raise errors.scale_how()
    if merge and len(set(merge)) < 2:
        raise errors.merge_what()
    stream = _opened(address, token)
    after = stream.merge(*(merge or ())) if split is None else stream.split(split, into=into)
    _tell(_segments(stream, after), ("segment", "keys", "follows", "events", "standing"), json=json)


@app.command(epilog="Example: eventide marks seal sqlite:///shop.db#orders")
def seal(address: Address, yes: Yes = False, token: Token = None) -> None:
    """End a stream: nothing can be written any more, and once all is read, event time has ended, too."""
    stream = _opened(address, token)
    _sure(f"End the stream {stream.address}? It cannot be opened again.", yes)
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
    from eventide.errors import cli_marks as errors
    from eventide.time import format_instant, instant

    if (mark is None) == (before is None):
        raise errors.truncate_where()
    stream = _opened(address, token)
    latest = None if before is None else instant(before, what="--before")
    fitting = [one for one in stream.marks() if one.number == mark or (latest is not None and one.lower <= latest)]
    if not fitting:
        raise errors.no_mark(stream.name, str(mark) if before is None else f"at {before} or before")
    chosen = fitting[-1]
    what = f"mark {chosen.number} ({format_instant(chosen.lower)}), cut {_position(chosen.cut)}"
    _sure(f"Drop all events of {stream.address} before {what}?", yes)
    stream.truncate(chosen.cut)
    typer.echo(f"Truncated at {what}.", err=True)


@app.command(epilog="Example: eventide marks delete sqlite:///shop.db#orders")
def delete(address: Address, yes: Yes = False, token: Token = None) -> None:
    """Forget a stream, and all that belongs to it."""
    stream = _opened(address, token)
    _sure(f"Delete the stream {stream.address} and all of its events?", yes)
    stream.delete()
    typer.echo("Deleted.", err=True)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    epilog="Example: eventide marks controller --help",
)
def controller(context: typer.Context) -> None:
    """Start a controller, which makes marks of what writers say. Its own options: controller --help."""
    from eventide.marks.controller.__main__ import main

    raise typer.Exit(main(context.args, program="eventide marks controller"))


def _opened(address: str, token: str | None) -> Stream:
    from eventide.marks.streams import open_stream

    check_store(address.rpartition("#")[0])
    return open_stream(address, token=token)


def _stream(stream: Stream) -> dict[str, Any]:
    from eventide.time import format_instant

    info, mark = stream.info(), stream.store.last_mark(stream.name)
    sealed = all(one.sealed for one in info.segments.open)
    return {
        "stream": stream.name,
        "segments": len(info.segments.open),
        "events": sum(stream.store.lengths(stream.name).values()),
        "writers": len(stream.store.notes(stream.name)),
        "marks": 0 if mark is None else mark.number,
        "time": "ended" if sealed else None if mark is None else format_instant(mark.lower),
    }


def _segments(stream: Stream, known: Segments) -> list[dict[str, Any]]:
    lengths = stream.store.lengths(stream.name)
    return [
        {
            "segment": one.number,
            "keys": f"[{one.low:g}, {one.high:g})",
            "follows": ", ".join(map(str, one.predecessors)),
            "events": lengths[one.number],
            "standing": "sealed" if one.sealed or known.successors(one.number) else "open",
        }
        for one in known.all
    ]


def _schema(columns: list[str]) -> Any:
    import pyarrow as pa

    from eventide.errors import cli_marks as errors

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
    found = []
    for text in columns:
        name, _, kind = text.rpartition(":")
        if not name or kind not in types:
            raise errors.bad_column(text, _TYPES)
        found.append((name, types[kind]))
    return pa.schema(found)


def _tell(rows: list[dict[str, Any]], columns: tuple[str, ...], *, json: bool) -> None:
    if json:
        for row in rows:
            screen.tell_json(row)
    else:
        screen.results().print(screen.table(*columns, rows=[[row[name] for name in columns] for row in rows]))


def _position(position: Any) -> str:
    return ", ".join(f"{number}:{offset}" for number, offset in sorted(position.items()))


def _sure(question: str, yes: bool) -> None:
    if not yes:
        typer.confirm(question, abort=True, err=True)
