"""Main memory and the allocator of an attempt, watched over time."""
