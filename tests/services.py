"""Services that tests need and that may be missing on a machine: PostgreSQL, Kafka, HDFS, S3."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TypeVar

import pytest

Service = TypeVar("Service")


class UnavailableError(Exception):
    """A service cannot run on this machine, and why."""


def running(service: AbstractContextManager[Service]) -> Iterator[Service]:
    """Yield a service that runs, for a fixture; skip the test with the reason where the service cannot start.

    Only the start may skip: an error of a test, or of the end of the service, is not hidden.
    """
    try:
        handle = service.__enter__()
    except UnavailableError as reason:
        pytest.skip(str(reason))
    yield handle
    service.__exit__(None, None, None)
