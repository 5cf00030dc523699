"""Sizes, durations, addresses and log levels as people write them."""
