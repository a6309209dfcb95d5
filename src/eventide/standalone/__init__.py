"""Window operators that run by themselves: messages in, results out, with a store that survives a crash.

``operator`` has the procedure that all kinds share; ``stores`` has what rests; ``windowing`` and ``policies`` have the
rules, as columns.
"""

from eventide.standalone.aggregators import SessionAggregator, WindowAggregator
from eventide.standalone.join_windows import JoinWindow, SessionJoinWindow

__all__ = ["JoinWindow", "SessionAggregator", "SessionJoinWindow", "WindowAggregator"]
