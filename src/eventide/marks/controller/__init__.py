"""Controllers: they merge what writers say into marks, and share the streams of a store out among themselves."""

from eventide.marks.controller.controller import Controller
from eventide.marks.controller.status import Status, StreamStatus

__all__ = ["Controller", "Status", "StreamStatus"]
