"""Programs and services that tests need and that may be missing on a machine: PostgreSQL, Kafka, a browser.

Tests without their service are skipped. ``EVENTIDE_REQUIRED`` names services, separated by spaces, whose tests fail
instead: ``.ci/services`` installs them and prints the names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import NoReturn, TypeVar

import pytest

Service = TypeVar("Service")


class UnavailableError(Exception):
    """A service cannot run on this machine, and why. ``needs`` names what is required of a machine for it."""

    def __init__(self, reason: str, *, needs: str | None = None) -> None:
        super().__init__(reason)
        self.needs = needs


def running(service: AbstractContextManager[Service]) -> Iterator[Service]:
    """Yield a service that runs, for a fixture; skip the test with the reason where the service cannot start.

    Only the start may skip: an error of a test, or of the end of the service, is not hidden.
    """
    try:
        handle = service.__enter__()
    except UnavailableError as reason:
        unavailable(str(reason), needs=reason.needs)
    yield handle
    service.__exit__(None, None, None)


def unavailable(reason: str, *, needs: str | None) -> NoReturn:
    """Skip a test whose service is missing; fail it on a machine that must have the service."""
    if needs is not None and needs in os.environ.get("EVENTIDE_REQUIRED", "").split():
        pytest.fail(f"EVENTIDE_REQUIRED names {needs}. {reason}", pytrace=False)
    pytest.skip(reason)
