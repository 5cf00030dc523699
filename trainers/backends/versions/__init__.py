"""Versions of Keras: what differs between them, in modules with the same names."""
