"""An S3 for tests: the server of moto, which is not among the development tools because of what it brings along.

``.ci/services`` installs it into an environment of its own.
"""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.services import UnavailableError

BUCKET = "shop"
OWN = Path(__file__).parents[1] / ".cache" / "moto" / "bin" / "python"
_START = 60  # seconds until the server listens


@contextmanager
def s3() -> Iterator[str]:
    """Run a server with an empty bucket; gives its address."""
    python = sys.executable if importlib.util.find_spec("moto") else str(OWN)
    if not Path(python).exists():
        raise UnavailableError("S3 is played by moto, which is not installed: .ci/services installs it", needs="moto")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [python, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _create_bucket(running, f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}"
    finally:
        running.kill()
        running.wait()


def _create_bucket(running: subprocess.Popen[bytes], address: str) -> None:
    end = time.monotonic() + _START
    while time.monotonic() < end and running.poll() is None:
        try:
            urllib.request.urlopen(urllib.request.Request(f"{address}/{BUCKET}", method="PUT")).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise UnavailableError("The server of moto did not start", needs="moto")
