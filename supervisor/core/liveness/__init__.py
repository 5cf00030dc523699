"""Hang detection: what is usual for a run, and when silence is a hang."""
