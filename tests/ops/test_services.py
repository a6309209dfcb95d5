"""Tests of a missing service are skipped, and fail where the machine must have it; CI says what it must have."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.services import UnavailableError, running, unavailable

ROOT = Path(__file__).parents[2]
SERVICES = ROOT / ".ci" / "services"


def test_a_missing_service_skips_its_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENTIDE_REQUIRED", "postgresql maven")
    with pytest.raises(pytest.skip.Exception, match="promtool is not installed"):
        unavailable("promtool is not installed", needs="promtool")
    with pytest.raises(pytest.skip.Exception):
        unavailable("Maven Central does not answer", needs=None)


def test_a_required_service_that_is_missing_fails_its_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def broken() -> Iterator[None]:
        raise UnavailableError("The server does not start", needs="postgresql")
        yield

    monkeypatch.setenv("EVENTIDE_REQUIRED", "chromium postgresql")
    with pytest.raises(pytest.fail.Exception, match="The server does not start"):
        next(running(broken()))


def fake_machine(place: Path, *programs: str, apt: str | None = None) -> dict[str, str]:
    """An environment whose path has only these programs, and perhaps an apt-get with this body."""
    place.mkdir()
    for program in ("bash", "id", "timeout", "env", "dirname", "touch"):
        (place / program).symlink_to(f"/usr/bin/{program}")
    for program in programs:
        (place / program).write_text("#!/bin/sh\nexit 0\n")
    if apt is not None:
        (place / "apt-get").write_text(f"#!/bin/sh\n{apt}\n")
        (place / "sudo").write_text('#!/bin/sh\nshift 2\n[ "$1" = true ] || exec "$@"\n')
    for file in place.iterdir():
        if not file.is_symlink():
            file.chmod(0o755)
    return {"PATH": str(place)}


def outcome(environment: dict[str, str]) -> tuple[list[str], str]:
    done = subprocess.run(
        ["/usr/bin/bash", str(SERVICES)], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.split(), done.stderr


def test_services_that_a_machine_has_are_required_and_nothing_is_installed(tmp_path: Path) -> None:
    programs = ("google-chrome", "promtool", "initdb", "mvn", "openssl")
    machine = fake_machine(tmp_path / "bin", *programs, apt="echo apt-get was called; exit 1")
    names, messages = outcome(machine)
    assert "apt-get" not in messages
    assert [name for name in names if name != "moto"] == ["chromium", "promtool", "postgresql", "maven", "openssl"]


def test_missing_services_are_installed_and_then_required(tmp_path: Path) -> None:
    place = tmp_path / "bin"
    touched = "".join(f"touch {place}/{name}; " for name in ("chromium", "promtool"))
    install = f'case "$*" in *install*) {touched} chmod +x {place}/chromium {place}/promtool;; esac'
    machine = fake_machine(place, "initdb", "mvn", "openssl", apt=install)
    (place / "chmod").symlink_to("/usr/bin/chmod")
    names, messages = outcome(machine)
    assert {"chromium", "promtool"} <= set(names)
    assert "apt-get install chromium prometheus" in messages


def test_a_package_that_cannot_be_installed_is_not_required_and_named(tmp_path: Path) -> None:
    machine = fake_machine(tmp_path / "bin", "promtool", "initdb", "mvn", "openssl", apt="exit 100")
    names, messages = outcome(machine)
    assert "chromium" not in names and "promtool" in names
    assert "Tests of chromium are skipped: apt-get cannot install it." in messages


def test_a_machine_without_apt_says_so(tmp_path: Path) -> None:
    names, messages = outcome(fake_machine(tmp_path / "bin", "promtool", "initdb", "mvn"))
    assert "openssl" not in names and "promtool" in names
    assert "this machine has no apt-get" in messages


@pytest.mark.parametrize("file", [".ci/run", ".github/workflows/ci.yml", ".github/workflows/release.yml"])
def test_ci_installs_services_before_it_tests_and_requires_them(file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    assert 0 < text.index("EVENTIDE_REQUIRED=") < text.rindex("make test")
    assert "$(.ci/services)" in text and os.access(SERVICES, os.X_OK)
