"""What a command of the control stream did in the batch that applied it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from eventide.operators.saving import State
from eventide.spark import page


@dataclass(frozen=True)
class CommandEffect:
    """A command that a batch applied."""

    id: str
    action: str  # drain, skip, retire or note
    origin: str | None = None
    known: bool = True  # whether the origin that the command names exists


def command_effects(pages: Iterable[Any], before: State) -> list[CommandEffect]:
    """Return the effects of the commands among the pages of a batch, in their order.

    What writers of marks declare arrives as commands too; it has no id, and nobody waits for it.
    """
    commands = [json.loads(one["detail"]) for one in pages if one["kind"] == page.CONTROL]
    return [command_effect(command, before) for command in commands if "id" in command]


def command_effect(command: dict[str, Any], before: State) -> CommandEffect:
    """Return the effect of one command on a state."""
    origin = command.get("origin")
    known = command["do"] not in ("retire", "skip") or before.tracker.knows(origin)
    return CommandEffect(command["id"], command["do"], origin, known)


def effects_from(plain: Iterable[dict[str, Any]]) -> tuple[CommandEffect, ...]:
    """Return effects that were written as JSON."""
    return tuple(CommandEffect(**effect) for effect in plain)


def plain(effects: Iterable[CommandEffect]) -> list[dict[str, Any]]:
    """Return effects as JSON can hold them."""
    return [asdict(effect) for effect in effects]
