"""Training data: their order, their position, and whether they are the same."""
