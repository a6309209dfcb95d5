"""Controllers: they merge the notes of writers into marks, and serve a store over HTTP."""

from eventide.marks.controller.controller import Controller, Status, StreamStatus

__all__ = ["Controller", "Status", "StreamStatus"]
