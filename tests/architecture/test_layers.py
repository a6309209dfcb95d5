"""Dependencies point one way: hosts import the core. The core imports no host, no clock, no file and no randomness."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import eventide

SOURCE = Path(eventide.__file__).parent

# A module imports from its own package and from the layers before its own.
LAYERS = (
    ("errors", "_familiar", "_familiar_options", "_formats", "_jvm"),
    ("kernels",),
    ("_arguments", "_columns", "_column_refs", "_databases", "_display", "_hints", "_paths", "_web_server", "time"),
    ("_addresses", "_frames", "panes"),
    ("windows", "triggers", "watermarks", "aggregates"),
    ("state", "marks", "compat"),
    ("processors",),
    ("plan",),
    ("operators",),
    ("metrics",),
    ("local", "sinks"),
    ("standalone", "spark"),
    ("streamsql", "testing"),
    ("demo", "dashboards"),
    ("cli", "__init__"),
    ("__main__",),
)
LAYER_OF = {name: number for number, layer in enumerate(LAYERS) for name in layer}
UPWARD = {"plan/pipeline.py"}  # a pipeline is the user's handle on every host; it imports them inside its methods

CORE = {"time", "kernels", "windows", "watermarks", "triggers", "aggregates", "processors", "operators", "state"}
OUTSIDE = ("pyspark", "random", "secrets", "threading", "subprocess", "socket", "os", "time")
FORBIDDEN_CALLS = {"open", "datetime.now", "datetime.utcnow", "date.today", "time.time", "time.time_ns", "print"}

ALL_FILES = sorted(SOURCE.rglob("*.py"))
CORE_FILES = [path for path in ALL_FILES if path.relative_to(SOURCE).parts[0] in CORE or path.name == "panes.py"]

# Processes of Spark start with these modules, so they import nothing heavy.
LIGHT = ("eventide", "eventide.spark.state_processor", "pyspark_eventide", "pyspark_eventide.source")
HEAVY = ("polars", "pandas", "numpy")


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(tree: ast.AST, *, for_types: bool = True) -> set[str]:
    """Return the modules and names that a file imports, at the top or inside a function."""
    skipped = set() if for_types else {id(n) for guard in ast.walk(tree) if _for_types(guard) for n in ast.walk(guard)}
    names: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def calls(tree: ast.AST) -> set[str]:
    """Return what a file calls, as it is written."""
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_every_module_has_a_layer() -> None:
    assert {part_of(path) for path in ALL_FILES} <= set(LAYER_OF)


@pytest.mark.parametrize("path", ALL_FILES, ids=name_of)
def test_imports_point_downward(path: Path) -> None:
    if name_of(path) in UPWARD:
        return
    part = part_of(path)
    names = {name.split(".")[1] for name in imports(parsed(path), for_types=False) if name.startswith("eventide.")}
    upward = {name for name in names & set(LAYER_OF) - {part} if LAYER_OF[name] >= LAYER_OF[part]}
    assert not upward


def test_a_pipeline_imports_its_hosts_only_inside_its_methods() -> None:
    for name in UPWARD:
        top = ast.Module([node for node in parsed(SOURCE / name).body if not _for_types(node)], [])
        top.body = [node for node in top.body if isinstance(node, (ast.Import, ast.ImportFrom))]
        hosts = {name.split(".")[1] for name in imports(top) if name.startswith("eventide.")}
        assert all(LAYER_OF[host] <= LAYER_OF["plan"] for host in hosts)


@pytest.mark.parametrize("path", CORE_FILES, ids=name_of)
def test_the_core_imports_no_spark_no_clock_no_randomness_and_no_threads(path: Path) -> None:
    names = imports(parsed(path))
    assert not {name for name in names for module in OUTSIDE if f"{name}.".startswith(f"{module}.")}


@pytest.mark.parametrize("path", CORE_FILES, ids=name_of)
def test_the_core_reads_no_clock_and_opens_no_file(path: Path) -> None:
    assert not calls(parsed(path)) & FORBIDDEN_CALLS


@pytest.mark.parametrize("module", LIGHT)
def test_modules_that_processes_start_with_import_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print(*(sorted({{name.split('.')[0] for name in sys.modules}} & set({HEAVY!r}))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not done.stdout.split()


def test_importing_the_package_does_not_import_spark() -> None:
    code = "import sys, eventide; sys.exit(any(m.split('.')[0] in ('pyspark', 'pandas') for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Columns of rows, windows and timers on the axis of time or of offsets, and what they are compared with.
POSITIONS = {"AT", "TIME", "END", "DUE", "FORGET", "HELD", "LAST_TIME"}
WATERMARKS = {"WAS", "REACHED", "PREVIOUS", "STREAM_POSITION", "PREVIOUS_STREAM_POSITION", "RETENTION_FLOOR"}
WATERMARKS |= {"watermark", "output_watermark", "previous", "previous_watermark", "reached", "passed", "due"}
WATERMARKS |= {"previous_time", "time", "position", "newest", "floor", "_floor"}
LATENESS_FILES = [path for path in ALL_FILES if path.relative_to(SOURCE).parts[0] in CORE | {"standalone", "plan"}]


def compared_with_watermark(tree: ast.AST) -> list[str]:
    """Return the comparisons of a column of positions with a watermark."""
    compared = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
            sides = [_names(side) for side in (node.left, *node.comparators)]
            if any(side & POSITIONS for side in sides) and any(side & WATERMARKS for side in sides):
                compared.append(ast.unparse(node))
    return compared


def _names(side: ast.AST) -> set[str]:
    """Return the names in one side of a comparison: of columns as ``c.NAME`` or ``NAME``, and of watermarks."""
    if any(isinstance(node, ast.Attribute) and node.attr == "live_from" for node in ast.walk(side)):
        return set()  # a bound that windows/lateness.py computes
    attributes = {node.attr for node in ast.walk(side) if isinstance(node, ast.Attribute)}
    return attributes | {node.id for node in ast.walk(side) if isinstance(node, ast.Name)}


@pytest.mark.parametrize(
    "code",
    [
        "rows[c.AT] < rows[c.WAS]",
        "pl.col(c.END) <= step.watermark",
        "watermark > pl.col(c.TIME)",
        "x[c.TIME] < previous",
        "pl.col(DUE) > reached",
        "pl.col(c.FORGET) <= step.time",
        "pl.col(c.AT) >= self._floor",
    ],
)
def test_a_comparison_with_a_watermark_is_recognised(code: str) -> None:
    assert compared_with_watermark(ast.parse(code))


@pytest.mark.parametrize("code", ["is_late(rows[c.AT], rows[c.WAS])", "rows[c.END] > expiry.live_from(previous)"])
def test_a_use_of_the_rules_is_no_comparison_of_its_own(code: str) -> None:
    assert not compared_with_watermark(ast.parse(code))


@pytest.mark.parametrize("path", LATENESS_FILES, ids=name_of)
def test_the_rules_of_lateness_are_in_one_place(path: Path) -> None:
    compared = compared_with_watermark(parsed(path))
    assert not compared or path.name == "lateness.py", "use the functions of windows/lateness.py"


LAST_END = re.compile(r"group_by\([^)]*\)\.agg\(\s*pl\.col\((c\.)?END\)\.max\(\)[,)]")


@pytest.mark.parametrize("path", LATENESS_FILES, ids=name_of)
def test_whether_all_windows_of_a_group_have_expired_is_decided_by_one_function(path: Path) -> None:
    assert not LAST_END.search(path.read_text(encoding="utf-8")) or path.name == "lateness.py", "use last_ends()"


def test_the_last_end_of_a_group_is_recognised() -> None:
    assert LAST_END.search("ends = both.group_by(RUN).agg(pl.col(c.END).max(), pl.len())")
    assert not LAST_END.search("ends = last_ends(both, RUN, pl.len())")
