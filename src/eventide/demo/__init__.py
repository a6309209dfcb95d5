"""``python -m eventide.demo``: ten integers, and what becomes of them in four pipelines."""
