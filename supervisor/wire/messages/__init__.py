"""Messages between supervisor and training: what one asks, what the other answers."""
