"""Readings of devices with a watermark per device, idle detection, and an account of every reading."""
