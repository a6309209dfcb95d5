"""The wheel and the source archive hold exactly what they should, and the metadata names what is installed."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("eventide", "pyspark_eventide")
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
NAME = f"pyspark_eventide-{VERSION}"
IN_ARCHIVE = {
    *("src", "tests", "docs", "bench", "examples", "ops"),
    *("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "SECURITY.md"),
    *("mkdocs.yml", "requirements.lock", "pyproject.toml"),
    *(".gitignore", "PKG-INFO"),  # hatchling adds these two
}


def tracked(folder: str) -> set[str]:
    """The files of a folder that belong to the project: those that git knows, or would not ignore."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", folder]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return {name for name in names if (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (ROOT / ".git").exists():
        pytest.skip("what belongs to the project is known only in a checkout of its repository")
    place = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(place)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return place


@pytest.fixture(scope="module")
def in_wheel(built: Path) -> set[str]:
    with zipfile.ZipFile(built / f"{NAME}-py3-none-any.whl") as wheel:
        return set(wheel.namelist())


def test_the_wheel_holds_the_two_packages_and_nothing_else(in_wheel: set[str]) -> None:
    packages = {name.removeprefix("src/") for package in PACKAGES for name in tracked(f"src/{package}")}
    about = {name for name in in_wheel if name.startswith(f"{NAME}.dist-info/")}
    assert in_wheel - about == packages
    assert {Path(name).name for name in about} == {"METADATA", "WHEEL", "RECORD", "LICENSE", "entry_points.txt"}


def test_the_wheel_holds_what_is_not_python(in_wheel: set[str]) -> None:
    assert {"eventide/py.typed", "eventide/spark/log4j2.properties"} <= in_wheel
    assert {f"eventide/dashboards/static/{name}" for name in ("index.html", "app.js", "style.css")} <= in_wheel


def test_the_source_archive_holds_the_project_without_its_surroundings(built: Path) -> None:
    with tarfile.open(built / f"{NAME}.tar.gz") as archive:
        names = {member.name.removeprefix(f"{NAME}/") for member in archive.getmembers() if member.isfile()}
    assert {name.partition("/")[0] for name in names} == IN_ARCHIVE
    folders = {name for name in IN_ARCHIVE if (ROOT / name).is_dir()}
    assert {name for name in names if "/" in name} == {name for folder in folders for name in tracked(folder)}


def test_the_distribution_is_called_pyspark_eventide(built: Path) -> None:
    with zipfile.ZipFile(built / f"{NAME}-py3-none-any.whl") as wheel:
        about = Parser().parsestr(wheel.read(f"{NAME}.dist-info/METADATA").decode())
    import eventide

    assert (about["Name"], about["Version"]) == ("pyspark-eventide", eventide.__version__)
    assert "eventide" not in {extra.partition("[")[0] for extra in about.get_all("Requires-Dist", [])}


def test_no_message_names_the_other_project_on_pypi() -> None:
    sources = [
        path for folder in ("src", "docs") for path in (ROOT / folder).rglob("*.*") if path.suffix in (".py", ".md")
    ]
    wrong = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in [*sources, ROOT / "README.md"]
        for line in path.read_text(encoding="utf-8").splitlines()
        if "pip install" in line and ("'eventide" in line or " eventide" in line.partition("pip install")[2][:20])
    ]
    assert wrong == []
