"""Window operators without a pipeline: messages in, results out, with a store that survives a crash."""

from eventide.errors import Rejected
from eventide.standalone.operators import JoinWindow, SessionAggregator, SessionJoinWindow, WindowAggregator

__all__ = ["JoinWindow", "Rejected", "SessionAggregator", "SessionJoinWindow", "WindowAggregator"]
