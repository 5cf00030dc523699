"""A batch trained in slices: what that changes, whatever the framework."""
