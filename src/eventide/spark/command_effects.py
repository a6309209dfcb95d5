"""What a command of the control stream did in the batch that applied it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from eventide.operators.saving import State
from eventide.spark import page
from eventide.watermarks import Trackers

_NAMED = {"note": "to", "end": "input"}
"""Where commands have the name of what they are about; others have it under ``origin``."""


@dataclass(frozen=True)
class CommandEffect:
    """A command that a batch applied."""

    id: str
    action: str  # drain, end, skip, retire or note
    origin: str | None = None  # or the input, or the watermark key, that the command names
    known: bool = True  # whether it exists; otherwise the command changed nothing


def command_effects(pages: Iterable[Any], before: State) -> list[CommandEffect]:
    """Return the effects of the commands among the pages of a batch, in their order.

    What writers of marks declare arrives as commands too; it has no id, and nobody waits for it.
    """
    commands = [json.loads(one["detail"]) for one in pages if one["kind"] == page.CONTROL]
    return [command_effect(command, before) for command in commands if "id" in command]


def command_effect(command: dict[str, Any], before: State) -> CommandEffect:
    """Return the effect of one command on a state."""
    named = command.get(_NAMED.get(command["do"], "origin"))
    return CommandEffect(command["id"], command["do"], None if named is None else str(named), is_known(command, before))


def is_known(command: dict[str, Any], state: State) -> bool:
    """Return whether the origin, the input or the watermark key exists that a command names."""
    tracker = state.tracker
    match command["do"]:
        case "retire" | "skip":
            return tracker.knows(command.get("origin"))
        case "note":
            return tracker.takes(command.get("to"))
        case "end":
            return command.get("input") in (tracker.names if isinstance(tracker, Trackers) else (None,))
    return True


def effects_from(plain: Iterable[dict[str, Any]]) -> tuple[CommandEffect, ...]:
    """Return effects that were written as JSON."""
    return tuple(CommandEffect(**effect) for effect in plain)


def plain(effects: Iterable[CommandEffect]) -> list[dict[str, Any]]:
    """Return effects as JSON can hold them."""
    return [asdict(effect) for effect in effects]
