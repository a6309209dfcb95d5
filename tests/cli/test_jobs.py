"""The content of job files, and the errors about invalid ones."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import eventide as ev
from eventide.cli.jobs import Job, load
from eventide.errors import PlanError
from tests.cli.typed import typed

PIPELINE = "ev.stream(time='ts', watermark=ev.bounded_delay('30s')).window(ev.tumbling('1 minute')).agg(n=ev.count())"
SECOND = PIPELINE.replace("'ts'", "'window_time'")


class Statement:
    """What ``ev.sql`` gives, as far as the command line needs it."""

    def __init__(self, *tables: str) -> None:
        self.pipeline = ev.stream(time="ts").window(ev.tumbling("7 minutes")).agg(n=ev.count())
        self.tables = tables

    def explain(self) -> str:
        return self.pipeline.explain()

    def run(self, rows: object, **options: object) -> tuple[object, dict[str, object]]:
        return rows, options


def job(place: Path, text: str, name: str = "job.py") -> str:
    (place / name).write_text(text, encoding="utf-8")
    return str(place / name)


def test_a_job_defines_a_pipeline(tmp_path: Path) -> None:
    loaded = load(job(tmp_path, f"import eventide as ev\npipeline = {PIPELINE}"))
    assert (loaded.name, len(loaded.pipeline.operators), loaded.rows) == ("job", 1, None)


def test_a_job_may_define_a_chain_and_its_rows(tmp_path: Path) -> None:
    text = f"import eventide as ev\nboth = {PIPELINE}.then({SECOND})\ndef rows(spark): return spark"
    loaded = load(f"{job(tmp_path, text)}:both")
    assert len(loaded.pipeline.operators) == 2
    assert loaded.rows is not None and loaded.rows("a session") == "a session"


def test_a_job_finds_the_modules_next_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    job(tmp_path, "SIZE = '5 minutes'", "sizes_of_this_test.py")
    loaded = load(
        job(
            tmp_path,
            "import eventide as ev\nfrom sizes_of_this_test import SIZE\n"
            "sales = ev.stream(time='ts', watermark=ev.bounded_delay('30s'))\n"
            "pipeline = sales.window(ev.tumbling(SIZE)).agg(n=ev.count())",
        )
    )
    assert "tumbling 5m" in loaded.pipeline.explain()


def test_a_job_may_define_dataclasses(tmp_path: Path) -> None:
    text = "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\n"
    assert load(job(tmp_path, f"{text}import eventide as ev\npipeline = {PIPELINE}")).pipeline


def test_what_a_job_defines_travels_by_value(tmp_path: Path) -> None:
    from pyspark import cloudpickle

    text = f"import eventide as ev\npipeline = {PIPELINE}\ndef rows(spark): return spark + 1"
    shipped = cloudpickle.dumps(load(job(tmp_path, text)).rows)
    assert cloudpickle.loads(shipped)(1) == 2
    assert "eventide_job" not in sys.modules


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "defines no pipeline"),
        ("pipeline = 5", "pipeline is 5, and not a pipeline"),
        ("pipeline = [5]", "pipeline is [5], and not a pipeline"),
        (f"import eventide as ev\na = b = {PIPELINE}", "defines several pipelines. Name the one to run: "),
        ("import eventide as ev\nev.tumbling('1 mintue')", "line 2: size of tumbling()='1 mintue'"),
        ("\n\n1 / 0", "line 3: ZeroDivisionError: division by zero"),
        ("def f(:", "line 1: SyntaxError"),
        ("raise SystemExit('no licence')", "SystemExit: no licence"),
    ],
)
def test_a_wrong_job_is_rejected_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(PlanError) as rejected:
        load(job(tmp_path, text))
    assert message in str(rejected.value) and "job.py" in str(rejected.value)


@pytest.mark.parametrize("target", ["job.txt", "job", "job.py:", "job.py:no name", "shop jobs:revenue", ":revenue", ""])
def test_a_target_of_another_form_is_no_job(target: str) -> None:
    with pytest.raises(PlanError, match=r"is not a job\. Write job\.py:revenue"):
        load(target)


def test_a_pipeline_of_a_file_is_named_after_a_colon(tmp_path: Path) -> None:
    text = f"import eventide as ev\nfirst = {PIPELINE}\nsecond = {PIPELINE.replace('1 minute', '2 minutes')}"
    loaded = load(f"{job(tmp_path, text)}:second")
    assert loaded.name == "second" and "tumbling 2m" in loaded.explain()


def test_the_only_pipeline_of_a_file_needs_no_name(tmp_path: Path) -> None:
    loaded = load(job(tmp_path, f"import eventide as ev\nrevenue = {PIPELINE}"))
    assert loaded.name == "job" and "tumbling 1m" in loaded.explain()


def test_a_misspelt_pipeline_gets_a_hint(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"job\.py does not define 'revenu'\. Did you mean 'revenue'"):
        load(job(tmp_path, f"import eventide as ev\nrevenue = {PIPELINE}") + ":revenu")


def test_a_pipeline_of_a_module_is_imported_from_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop_of_this_test").mkdir()
    job(tmp_path / "shop_of_this_test", f"import eventide as ev\nrevenue = {PIPELINE}", "jobs.py")
    loaded = load("shop_of_this_test.jobs:revenue")
    assert loaded.name == "revenue" and loaded.folder == str(tmp_path)
    with pytest.raises(PlanError, match=r"There is no module 'shop_of_this_test\.job'"):
        load("shop_of_this_test.job:revenue")


def test_a_file_with_sql_has_no_names(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"a SQL file is one query without a name"):
        load(f"{job(tmp_path, 'SELECT 7', 'q.sql')}:revenue")


def test_a_plan_is_explained(tmp_path: Path) -> None:
    shown = typed("explain", job(tmp_path, f"import eventide as ev\npipeline = {PIPELINE}"))
    assert shown.exit_code == 0
    assert "windows  tumbling 1m" in shown.stdout


def test_a_chain_is_explained_one_after_the_other(tmp_path: Path) -> None:
    text = f"import eventide as ev\npipeline = {PIPELINE}.then({SECOND})"
    assert typed("explain", job(tmp_path, text)).stdout.count("windows  ") == 2


def test_sql_becomes_a_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ev, "sql", {"SELECT 7": Statement("orders")}.__getitem__, raising=False)
    assert "tumbling 7m" in typed("explain", job(tmp_path, "SELECT 7", "q.sql")).stdout
    assert "tumbling 7m" in typed("sql", "--explain", "SELECT 7").stdout


def test_a_statement_is_run_with_its_rows() -> None:
    statement = Statement("orders")
    started = Job("q.sql", statement.pipeline, statement=statement).start("rows", sink="noop", checkpoint="c")
    assert started == ("rows", {"sink": "noop", "checkpoint": "c"})  # type: ignore[comparison-overlap]


def test_without_sql_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> object:
        raise AttributeError(name)

    monkeypatch.delattr(ev, "sql", raising=False)
    monkeypatch.setattr(ev, "__getattr__", nothing)
    result = typed("explain", job(tmp_path, "SELECT 7", "q.sql"))
    assert result.exit_code == 2
    assert "pip install 'pyspark-eventide[sql]'" in result.stderr


def test_a_job_says_whether_spark_computes_before_it(tmp_path: Path) -> None:
    plain = load(job(tmp_path, f"import eventide as ev\npipeline = {PIPELINE}"))
    assert not plain.computes
    assert Job("q.sql", plain.pipeline, statement=Statement("orders")).computes


def with_rows(place: Path, body: str) -> Job:
    return load(job(place, f"import eventide as ev\npipeline = {PIPELINE}\n{body}"))


def test_what_rows_prints_is_no_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loaded = with_rows(tmp_path, "def rows(spark):\n    print('hello')\n    return spark")
    frame = SimpleNamespace(sparkSession=None)
    assert loaded.read(frame) is frame
    assert capsys.readouterr() == ("", "hello\n")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("def rows(spark):\n    pass", "rows(spark) returns None, and not a DataFrame"),
        ("def rows(spark):\n    return {'left': 5}", "rows(spark) returns {'left': 5}"),
        ("def rows(spark):\n    raise RuntimeError('no rows today')", "line 4: RuntimeError: no rows today"),
        ("def rows():\n    pass", "TypeError: rows() takes 0 positional arguments but 1 was given"),
    ],
)
def test_rows_that_are_none_are_rejected_with_the_file(tmp_path: Path, body: str, message: str) -> None:
    with pytest.raises(PlanError) as rejected:
        with_rows(tmp_path, body).read("a session")
    assert message in str(rejected.value) and "job.py" in str(rejected.value)


def test_a_job_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_bytes(b"\xff\xfe")
    with pytest.raises(PlanError, match=r"job\.py.* is not UTF-8"):
        load(str(tmp_path / "job.py"))


def test_a_directory_is_no_job(tmp_path: Path) -> None:
    (tmp_path / "job.py").mkdir()
    with pytest.raises(PlanError, match="is a directory"):
        load(str(tmp_path / "job.py"))
