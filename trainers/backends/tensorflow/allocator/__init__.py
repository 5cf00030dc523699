"""TensorFlow's allocator, read from inside the process."""
