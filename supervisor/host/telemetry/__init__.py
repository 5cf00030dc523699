"""What an attempt leaves while it runs: page, events, log, allocator readings."""
