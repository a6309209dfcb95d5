"""How an operator was made: everything about it that does not change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from eventide.errors import standalone as errors
from eventide.operators import columns as c
from eventide.standalone import columns as s
from eventide.standalone.contents import Content
from eventide.standalone.intake import Roles
from eventide.standalone.placing import FixedWindows, SessionWindows
from eventide.standalone.policies import Policies
from eventide.standalone.progress import Course
from eventide.standalone.stores.keys import encoded_key
from eventide.state.layouts import Layout
from eventide.windows import Axis


@dataclass(frozen=True)
class Design:
    """The parts of an operator."""

    roles: Roles
    placing: FixedWindows | SessionWindows
    policies: Policies
    course: Course
    layout: Layout
    content: Callable[[pl.Schema], Content]
    holds: str
    """What windows hold, in words."""
    tells_replaced: bool = False

    @property
    def axis(self) -> Axis:
        """On which axis windows are cut."""
        return self.course.axis

    def window_key(self, key: object, schema: pl.Schema) -> str:
        """The key of windows, as they are stored."""
        if not self.roles.window_key:
            raise errors.no_window_key()
        return encoded_key(key, self.roles.window_key, schema)

    def lookup(self, key: object, on: object, schema: pl.Schema) -> tuple[str | None, str | None, bool]:
        """The session and the join key to look for; and whether nothing can be found, since null equals nothing."""
        session = equal = None
        if not self.roles.window_key:
            key, on = None, on if key is None else key
        if key is not None:
            session = self.window_key(key, schema)
        if on is not None:
            if not self.roles.equal:
                raise errors.no_join_key()
            equal = encoded_key(on, self.roles.equal, schema)
        nothing = isinstance(on, (list, tuple)) and None in on
        return session, equal, nothing

    def needed_from(self, floor: int) -> int:
        """The first position of messages that a window may still need."""
        assert isinstance(self.placing, FixedWindows)
        return self.placing.needed_from(floor)

    def unneeded(self, expired: pl.DataFrame) -> pl.DataFrame:
        """For each key of these windows, the range of its messages that no window of it needs any more."""
        assert isinstance(self.placing, FixedWindows)
        ranges = expired.group_by(s.SESSION, maintain_order=True).agg(pl.col(c.START).min(), pl.col(s.FLOOR).first())
        return ranges.with_columns(self.placing.needed(ranges[s.FLOOR]).alias(c.END))

    def facts(self) -> dict[str, str]:
        """What stored state depends on, in words."""
        roles = self.roles
        return {
            "operator": roles.operator,
            "windows": self.placing.kind.describe(),
            "time": str(roles.time),
            "offset": roles.offset,
            "key": ", ".join(roles.window_key),
            "join key": ", ".join(roles.equal),
            "message key": self.layout.describe(),
            "policies": self.policies.describe(),
            "windows hold": self.holds,
        }

    def explain(self, needs_messages: bool | str) -> str:
        """Aligned lines, one fact each."""
        kept = {True: f"kept, by {self.layout.describe()}", False: "none kept: results rest in windows"}
        facts = self.facts() | {
            "messages": needs_messages if isinstance(needs_messages, str) else kept[needs_messages],
            "retention": self.course.retention.describe(),
        }
        shown = {name: text for name, text in facts.items() if text and name != "message key"}
        width = max(map(len, shown))
        return "".join(f"{name.rjust(width)}  {text}\n" for name, text in shown.items())
