"""The test kit: tell a story to a pipeline and say what must come of it.

``TestStream`` is the story in Python, ``transcripts`` the same as a file, ``picture`` draws what happened.
"""

from eventide.testing.expectations import ExpectedPane, pane, retraction
from eventide.testing.stream import TestStream

__all__ = ["ExpectedPane", "TestStream", "pane", "retraction"]
