"""Accounting of runs: summaries, series, snapshots, the time between failures."""
