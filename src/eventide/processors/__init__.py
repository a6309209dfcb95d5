"""Operators that users write themselves: by columns, or row by row."""

from eventide.processors.processor import Processor
from eventide.processors.rowwise import RowProcessor

__all__ = ["Processor", "RowProcessor"]
