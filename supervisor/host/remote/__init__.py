"""The remote tier: snapshots beyond the machine."""
