"""The test kit: replay a history of rows and watermarks, and compare the panes with the expected ones.

``TestStream`` describes the history in Python, ``transcripts`` in a file, and ``picture`` draws the result.
"""

from eventide.testing.expectations import ExpectedPane, pane, retraction
from eventide.testing.stream import TestStream

__all__ = ["ExpectedPane", "TestStream", "pane", "retraction"]
