"""Operators: pure steps over columnar data, the same in every host."""
