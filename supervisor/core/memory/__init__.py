"""Allocator figures, the analysis of an OOM, and the forecast of the next."""
