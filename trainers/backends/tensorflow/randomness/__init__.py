"""Randomness of TensorFlow: states, and draws without a seed."""
