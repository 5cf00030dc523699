"""A batch trained in slices on JAX: the step, what it changes, the memory that it takes."""
