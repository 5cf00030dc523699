"""Snapshots: when they are due, how they are written, which one is restored."""
