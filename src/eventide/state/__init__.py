"""State between bundles: immutable stores whose cost is proportional to the entries that a bundle changes."""
