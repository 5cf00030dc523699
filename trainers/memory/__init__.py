"""What the framework's allocator says of itself, from inside the process."""
