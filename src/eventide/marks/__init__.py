"""Marks: writers that declare time, and the watermark that is made of it."""
