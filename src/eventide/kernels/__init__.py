"""Columnar primitives without rules of event time."""
