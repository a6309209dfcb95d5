"""What rests between bundles: immutable stores whose cost follows what a bundle touches."""
