"""Operators that users write themselves: by columns, or row by row."""

from eventide.processors.processor import Processor
from eventide.processors.row_processor import RowProcessor

__all__ = ["Processor", "RowProcessor"]
