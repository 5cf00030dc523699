"""The allocator of any framework: its figures, and when to read them."""
