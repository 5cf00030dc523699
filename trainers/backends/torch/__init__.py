"""Keras on PyTorch, behind the Protocols of ``trainers.backends.base``."""
