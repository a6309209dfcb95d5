"""The configuration of an operator: everything that does not change while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from eventide import _columns as c
from eventide.standalone.assignment import FixedAssigner, SessionAssigner
from eventide.standalone.intake import Roles
from eventide.standalone.policies import Policies
from eventide.standalone.progress import AxisConfig
from eventide.standalone.window_contents import Content
from eventide.state.message_layout import MessageLayout


@dataclass(frozen=True)
class OperatorConfig:
    """The parts of an operator. ``content`` binds the contents of windows to the columns of messages."""

    roles: Roles
    assigner: FixedAssigner | SessionAssigner
    policies: Policies
    axis_config: AxisConfig
    layout: MessageLayout
    content: Callable[[pl.Schema], Content]
    content_description: str
    shows_replaced: bool = False
    """Whether outputs name the windows that they replace."""

    def needed_from(self, floor: int) -> int:
        """Return the first position of messages that a window may still need."""
        assert isinstance(self.assigner, FixedAssigner)
        return self.assigner.needed_from(floor)

    def unneeded_ranges(self, expired: pl.DataFrame) -> pl.DataFrame:
        """Return the range of messages, for each key of expired windows, that no window of the key needs any more."""
        assert isinstance(self.assigner, FixedAssigner)
        first, floor = pl.col(c.START).min(), pl.col(c.RETENTION_FLOOR).first()
        ranges = expired.group_by(c.SESSION, maintain_order=True).agg(first, floor)
        return ranges.with_columns(self.assigner.first_needed(ranges[c.RETENTION_FLOOR]).alias(c.END))

    def fingerprint(self) -> dict[str, str]:
        """Return what stored state depends on, in words."""
        roles = self.roles
        return {
            "operator": roles.operator,
            "windows": self.assigner.kind.describe(),
            "time": str(roles.time),
            "offset": roles.offset,
            "key": ", ".join(roles.window_key),
            "join key": ", ".join(roles.join_key),
            "message key": self.layout.describe(),
            "policies": self.policies.describe(),
            "windows hold": self.content_description,
        }

    def explain(self, needs_messages: bool | None) -> str:
        """Return aligned lines, one fact each. ``needs_messages`` is None before the columns are known."""
        messages = {
            None: "known with the first message",
            True: f"kept, by {self.layout.describe()}",
            False: "none kept: windows store results",
        }
        facts = self.fingerprint() | {
            "messages": messages[needs_messages],
            "retention": self.axis_config.retention.describe(),
        }
        lines = {name: text for name, text in facts.items() if text and name != "message key"}
        width = max(map(len, lines))
        return "".join(f"{name.rjust(width)}  {text}\n" for name, text in lines.items())
