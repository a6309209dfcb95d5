"""Benchmarks: Eventide and a peer in one process run, alternating, on the same rows, results compared."""
