"""Telemetry of an attempt while it runs: page, events, log, allocator readings."""
