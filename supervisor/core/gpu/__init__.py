"""GPUs as values: readings, Xids, assignment, and the supervision of the probe."""
