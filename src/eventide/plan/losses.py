"""What a plan may lose, depending on the host that runs it."""

from __future__ import annotations

_TRANSFORM = "with .transform() on Spark: late rows and dead letters, which ev.run and ev.outputs keep"


def losses(elsewhere: str) -> list[tuple[str, str]]:
    """The lines of ``explain()``. ``elsewhere`` is what may be lost on the hosts that keep all outputs."""
    return [("may be lost", elsewhere), ("", _TRANSFORM)]
