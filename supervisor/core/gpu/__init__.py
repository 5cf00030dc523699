"""GPUs as values: readings, Xids, assignment, and the probe's protocol."""
