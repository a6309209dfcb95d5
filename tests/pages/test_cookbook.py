"""The cookbook's page about tests, over the stages of the Spark host: the same story has the same panes there."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from eventide.testing import TestStream
from tests.docs.cookbook import JOBS
from tests.spark.harness import PagesHost

(JOB,) = [job for job in JOBS if job.page == "test-a-job"]


def test_the_story_of_a_test_is_that_on_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = []

    def open_host(*arguments: Any) -> PagesHost:
        hosts.append(partial(PagesHost, buckets=3, tasks=2)(*arguments))
        return hosts[-1]

    monkeypatch.setattr("eventide.testing.TestStream", partial(TestStream, host=open_host))
    JOB.run()
    assert len(hosts) == 1
