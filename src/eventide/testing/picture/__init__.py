"""Pictures of event time against processing time, as a standalone HTML page.

A timeline says what happened: when rows arrived, where the watermark stood, which panes were emitted. Nothing
here computes any of it, so a picture shows what an operator did, not what it should have done.
"""

from eventide.testing.picture.page import picture, pictures
from eventide.testing.picture.timeline import Event, Facet, Fate, Pane, Timeline, Timing

__all__ = ["Event", "Facet", "Fate", "Pane", "Timeline", "Timing", "picture", "pictures"]
