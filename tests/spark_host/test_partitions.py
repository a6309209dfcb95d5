"""How many buckets there are: the cores of the query, a setting, or what the checkpoint was started with."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import pytest

import eventide as ev
from eventide.spark.buckets import (
    PARTITIONS,
    bucket_count,
    in_few_tasks,
    query_cores,
    query_settings,
    warn_of_partitions,
)

KEYED = ev.stream(time="ts", key="shop").window(ev.tumbling("1 minute")).agg(n=ev.count()).plan
WHOLE = ev.stream(time="ts").window(ev.tumbling("1 minute")).agg(n=ev.count()).plan


class Conf(dict[str, str]):
    """The settings of a session."""

    @property
    def getAll(self) -> dict[str, str]:  # noqa: N802
        return self

    def set(self, name: str, value: str) -> None:
        self[name] = value

    def unset(self, name: str) -> None:
        del self[name]


def session(running: int = 2, conf: dict[str, str] | None = None, **context: str) -> Any:
    settings = {f"spark.{name.replace('_', '.')}": value for name, value in context.items()}
    return SimpleNamespace(
        conf=Conf(conf or {}),
        sparkContext=SimpleNamespace(defaultParallelism=running, getConf=lambda: settings),
    )


def test_far_more_state_partitions_than_buckets_are_reported() -> None:
    with pytest.warns(UserWarning, match=r'sets spark\.sql\.shuffle\.partitions to 200.*partitions", "4"\)'):
        warn_of_partitions(session(4, {PARTITIONS: "200"}), 4)


@pytest.mark.parametrize(("setting", "buckets"), [(None, 4), ("32", 4), ("200", 64), ("16", 1)])
def test_state_partitions_that_fit_the_buckets_are_not_reported(setting: str | None, buckets: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_partitions(session(4, {} if setting is None else {PARTITIONS: setting}), buckets)


def test_there_are_as_many_buckets_as_cores_independent_of_shuffle_partitions() -> None:
    assert bucket_count(KEYED, session(4, {"spark.sql.shuffle.partitions": "200"})) == 4


@pytest.mark.parametrize(("cores", "buckets"), [(1, 1), (2, 2), (3, 4), (12, 16), (64, 64), (65, 128)])
def test_buckets_are_rounded_up_for_growth(cores: int, buckets: int) -> None:
    assert bucket_count(KEYED, session(cores)) == buckets


def test_executors_that_have_yet_to_start_count() -> None:
    assert query_cores(session(2, executor_instances="4", executor_cores="8")) == 32


def test_executors_have_a_core_where_nothing_else_is_set() -> None:
    assert query_cores(session(2, executor_instances="4")) == 4


DYNAMIC = {"dynamicAllocation_enabled": "true", "dynamicAllocation_maxExecutors": "20"}


def test_executors_that_dynamic_allocation_may_start_count() -> None:
    assert query_cores(session(2, executor_cores="4", **DYNAMIC)) == 80
    assert bucket_count(KEYED, session(2, executor_cores="4", **DYNAMIC)) == 128


@pytest.mark.parametrize(
    "changed",
    [
        {"dynamicAllocation_enabled": "false"},
        {"dynamicAllocation_maxExecutors": "10000"},  # the default of a platform
        {"dynamicAllocation_maxExecutors": ""},
    ],
)
def test_limits_that_say_nothing_about_the_query_do_not_count(changed: dict[str, str]) -> None:
    assert query_cores(session(2, executor_cores="4", **DYNAMIC | changed)) == 2


def test_a_setting_wins_over_the_cores() -> None:
    assert bucket_count(KEYED, session(3, {"spark.eventide.buckets": "7"})) == 7


@pytest.mark.parametrize("value", ["0", "-1", "many", "65536"])
def test_a_setting_that_is_no_number_of_buckets_is_rejected(value: str) -> None:
    with pytest.raises(ev.PlanError, match=r"spark\.eventide\.buckets is"):
        bucket_count(KEYED, session(3, {"spark.eventide.buckets": value}))


def test_a_restart_on_other_cores_uses_the_recorded_number() -> None:
    assert bucket_count(KEYED, session(8), recorded=3) == 3


def test_a_setting_that_contradicts_the_checkpoint_is_rejected_with_how_to_fix_it() -> None:
    with pytest.raises(ev.PlanError, match=r'has 3 buckets.*set\("spark.eventide.buckets", "3"\)'):
        bucket_count(KEYED, session(8, {"spark.eventide.buckets": "8"}), recorded=3)


def test_a_plan_without_a_key_has_one_bucket() -> None:
    assert bucket_count(WHOLE, session(8)) == 1


def test_a_query_starts_with_as_many_state_partitions_as_buckets() -> None:
    spark = session()
    with query_settings(spark, {PARTITIONS: "3"}):
        assert spark.conf["spark.sql.shuffle.partitions"] == "3"
    assert "spark.sql.shuffle.partitions" not in spark.conf


def test_a_number_of_partitions_that_the_user_has_set_stays() -> None:
    spark = session(conf={"spark.sql.shuffle.partitions": "16"})
    with query_settings(spark, {PARTITIONS: "3"}):
        assert spark.conf["spark.sql.shuffle.partitions"] == "16"


class Pages:
    """The output of a stateful stage, and into how many tasks it was coalesced."""

    tasks: int | None = None

    def __init__(self, master: str, partitions: str | None = None) -> None:
        self.sparkSession = session(4, {} if partitions is None else {PARTITIONS: partitions})
        self.sparkSession.sparkContext.master = master

    def coalesce(self, tasks: int) -> Any:
        self.tasks = tasks
        return self


@pytest.mark.parametrize(
    ("buckets", "partitions", "tasks"),
    [(4, None, None), (20, None, 4), (200, None, 13), (4, "200", 13)],
)
def test_many_state_partitions_of_one_process_share_tasks(buckets: int, partitions: str | None, tasks: int) -> None:
    pages: Any = Pages("local[4]", partitions)
    assert in_few_tasks(pages, buckets) is pages
    assert pages.tasks == tasks


@pytest.mark.parametrize("master", ["spark://host:7077", "local-cluster[2,1,512]", "yarn"])
def test_on_a_cluster_each_state_partition_has_a_task(master: str) -> None:
    pages: Any = Pages(master)
    in_few_tasks(pages, 200)
    assert pages.tasks is None
