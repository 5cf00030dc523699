"""The catalog of metrics, and the values that they are rendered from."""
