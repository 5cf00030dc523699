"""The training process: entry, signals, import hooks, crash report."""
