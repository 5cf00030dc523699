"""Snapshots as the supervisor sees them, in both tiers."""
