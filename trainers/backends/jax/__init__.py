"""Keras on JAX, behind the Protocols of ``trainers.backends.base``."""
