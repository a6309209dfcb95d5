"""When a task names the state that it has: the head at once, the map of pages when it is needed."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest

from eventide.spark.processor import PAGES, pages_when_needed

Standing = Enum("Standing", ["PRE_INIT", "CREATED", "INITIALIZED"])


class Client:
    """What a handle speaks to Spark with."""

    def __init__(self, stands: Standing) -> None:
        self.handle_state = stands
        self.was: list[Standing] = []

    def set_handle_state(self, stands: Standing) -> None:
        self.handle_state = stands
        self.was.append(stands)


class Handle:
    """A handle that names a map only once, and only while it is new, as Spark's does."""

    def __init__(self, client: Any = None, called: str = "_statefulProcessorApiClient") -> None:
        self.asked: list[str] = []
        self._own = client
        setattr(self, called, client)

    def getMapState(self, name: str, *types: Any) -> str:  # noqa: N802
        assert getattr(self._own, "handle_state", None) is not Standing.INITIALIZED, "too late to name it"
        assert name not in self.asked, "named already"
        self.asked.append(name)
        return f"the map {name}"


@pytest.mark.parametrize("called", ["_statefulProcessorApiClient", "stateful_processor_api_client"])
def test_a_task_asks_for_the_map_when_it_is_needed_and_once(called: str) -> None:
    client = Client(Standing.CREATED)
    handle = Handle(client, called)
    pages: Any = pages_when_needed(handle)  # type: ignore[arg-type]
    client.set_handle_state(Standing.INITIALIZED)
    assert handle.asked == []
    assert pages() == pages() == "the map pages"
    assert handle.asked == [PAGES]
    assert client.was == [Standing.INITIALIZED, Standing.CREATED, Standing.INITIALIZED]


def test_the_process_that_gathers_which_state_there_is_is_told_of_the_map() -> None:
    handle = Handle(Client(Standing.PRE_INIT))
    pages_when_needed(handle)  # type: ignore[arg-type]
    assert handle.asked == [PAGES]


@pytest.mark.parametrize("client", [None, object(), Client(Standing.PRE_INIT)], ids=["none", "another", "elsewhere"])
def test_a_handle_that_is_not_as_known_is_asked_at_once(client: Any) -> None:
    handle = Handle(client)
    pages: Any = pages_when_needed(handle)  # type: ignore[arg-type]
    assert handle.asked == [PAGES]
    assert pages() == "the map pages"


def test_a_handle_whose_standing_cannot_be_set_is_asked_at_once() -> None:
    class Silent:
        handle_state = Standing.CREATED

    handle = Handle(Silent())
    pages_when_needed(handle)  # type: ignore[arg-type]
    assert handle.asked == [PAGES]
