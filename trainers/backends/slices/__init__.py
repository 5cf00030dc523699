"""Slices of a batch, whatever trains on them: losses that they make up, what they change."""
