"""A PostgreSQL of one's own: found or installed, started in a temporary directory, thrown away."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.services import UnavailableError

INSTALLED = Path("/usr/lib/postgresql")


@contextmanager
def cluster(*, durable: bool = False) -> Iterator[str]:
    """The URL of a running server, as its superuser. It listens on a socket in its directory, so no port is taken."""
    programs = find() or install()
    home = Path(tempfile.mkdtemp(prefix="eventide-pg-"))
    owner = server_user()
    if owner is not None:
        os.chown(home, owner.pw_uid, owner.pw_gid)
    data = home / "data"
    # Tests lose nothing if the machine goes down.
    options = f"-k {home} -c listen_addresses='' -c max_connections=30" + (
        "" if durable else " -c fsync=off -c full_page_writes=off"
    )
    try:
        run(
            programs / "initdb",
            "-D",
            data,
            "-U",
            "eventide",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-locale",
            "-N",
            as_=owner,
        )
        run(programs / "pg_ctl", "start", "-w", "-D", data, "-l", home / "log", "-o", options, as_=owner)
        try:
            yield f"postgresql:///postgres?host={home}&user=eventide"
        finally:
            run(programs / "pg_ctl", "stop", "-m", "immediate", "-D", data, as_=owner)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def crash(url: str) -> None:
    """Stop the server of this URL without a checkpoint, and start it again. It empties its UNLOGGED tables."""
    programs, home = find() or install(), re.findall("host=([^&]+)", url)[0]
    restart = ("restart", "-w", "-m", "immediate", "-D", f"{home}/data", "-l", f"{home}/log")
    run(programs / "pg_ctl", *restart, as_=server_user())


def find() -> Path | None:
    """Where the server's programs are; the newest, if there are several."""
    on_path = shutil.which("initdb")
    if on_path and shutil.which("pg_ctl", path=str(Path(on_path).parent)):
        return Path(on_path).resolve().parent
    directories = [path.parent for path in INSTALLED.glob("*/bin/initdb") if (path.parent / "pg_ctl").exists()]
    return max(directories, key=lambda path: float(path.parent.name), default=None)


def install() -> Path:
    """Debian's package, if we may."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise UnavailableError(
            "PostgreSQL is not installed, and only root on Debian can install it: apt-get install postgresql",
            needs="postgresql",
        )
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["install", "-y", "postgresql"], ["update"], ["install", "-y", "postgresql"]):
        subprocess.run(["apt-get", "-q", *command], env=environment, capture_output=True, check=False, timeout=300)
        programs = find()
        if programs is not None:
            return programs
    raise UnavailableError("PostgreSQL is not installed, and apt-get install postgresql failed", needs="postgresql")


def server_user() -> pwd.struct_passwd | None:
    """Who runs the server: we do, unless we are root, as whom it refuses to run."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise UnavailableError(
        "PostgreSQL does not run as root, and there is neither a user postgres nor nobody", needs="postgresql"
    )


def run(program: Path, *arguments: object, as_: pwd.struct_passwd | None) -> None:
    who = {} if as_ is None else {"user": as_.pw_uid, "group": as_.pw_gid, "extra_groups": []}
    command = [str(program), *map(str, arguments)]
    # Its output goes to a file: the server inherits it, and a pipe would stay open as long as it runs.
    with tempfile.TemporaryFile() as output:
        done = subprocess.run(
            command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, cwd="/", check=False, **who
        )  # type: ignore[call-overload]
        output.seek(0)
        if done.returncode:
            reason = f"{program.name} failed: {output.read().decode(errors='replace')[-500:]}"
            raise UnavailableError(reason, needs="postgresql")
