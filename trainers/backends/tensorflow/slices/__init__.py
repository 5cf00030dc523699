"""A batch trained in slices: what that changes, and the train step that does it."""
