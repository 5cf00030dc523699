"""The commands of ``trainwarden``."""
