"""How many buckets there are: the cores of the query, a setting, or what the checkpoint was started with."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import eventide as ev
from eventide.spark.buckets import PARTITIONS, bucket_count, query_cores, query_settings

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
    settings = {f"spark.executor.{name}": value for name, value in context.items()}
    return SimpleNamespace(
        conf=Conf(conf or {}),
        sparkContext=SimpleNamespace(defaultParallelism=running, getConf=lambda: settings),
    )


def test_there_are_as_many_buckets_as_cores_independent_of_shuffle_partitions() -> None:
    assert bucket_count(KEYED, session(3, {"spark.sql.shuffle.partitions": "200"})) == 3


def test_executors_that_have_yet_to_start_count() -> None:
    assert query_cores(session(2, instances="4", cores="8")) == 32


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
