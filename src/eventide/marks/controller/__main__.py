"""``python -m eventide.marks.controller --store URL``: a controller with an HTTP face, until it is told to stop."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from pathlib import Path

from eventide.errors import EventideError
from eventide.errors import controller as errors
from eventide.marks.controller.controller import Controller
from eventide.marks.controller.wire import MAX_BODY
from eventide.marks.stores import connect


def main(words: list[str], program: str = "python -m eventide.marks.controller") -> int:
    """Run until SIGTERM or Ctrl-C; what cannot be is told, and ends it."""
    given = _arguments(program).parse_args(words)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    # uvicorn raises the signal that ended it once more; by then it has done its work.
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        _serve(given)
    except EventideError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _serve(given: argparse.Namespace) -> None:
    try:
        from eventide.marks.controller.app import app
        from eventide.marks.controller.server import Server, Settings, token_from
    except ImportError as missing:
        raise errors.no_server(missing.name) from missing
    settings = Settings(
        host=given.host,
        port=given.port,
        token=token_from(given.token_file),
        hosts=tuple(given.allow_host),
        certificate=given.certificate,
        key=given.key,
        max_body=given.max_body,
    )
    store = connect(given.store)
    try:
        controller = Controller(store, given.name, lease=given.lease, every=given.every)
        face = app(
            store,
            token=settings.token,
            hosts=settings.known_hosts,
            max_body=settings.max_body,
            status=controller.status,
        )
        server = Server(face, settings, lambda url: print(f"{controller.name} is ready at {url}", flush=True))
        with controller:
            server.serve_until_stopped()
    finally:
        store.close()


def _arguments(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(program, description="Makes marks of what writers say.")
    parser.add_argument("--store", required=True, metavar="URL", help="sqlite:///shop.db or postgresql://user@host/db")
    parser.add_argument("--name", help="a name that no other controller of the store has; one is made up if not given")
    parser.add_argument("--host", default="127.0.0.1", help="any but loopback needs a certificate")
    parser.add_argument("--port", type=int, default=8787, help="0 takes a free one")
    own = "the token; without it, that of EVENTIDE_TOKEN, or of this user, which is created"
    parser.add_argument("--token-file", type=Path, help=own)
    parser.add_argument("--allow-host", action="append", default=[], metavar="NAME", help="a name that clients may use")
    parser.add_argument("--certificate", type=Path, help="PEM, with all that it depends on")
    parser.add_argument("--key", type=Path, help="the key of the certificate, PEM")
    parser.add_argument("--max-body", type=int, default=MAX_BODY, metavar="BYTES", help="of one request")
    parser.add_argument("--lease", default="10 seconds", help="after this long a dead controller is replaced")
    parser.add_argument("--every", default="1 second", help="how often it looks for what is due")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
