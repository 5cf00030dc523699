"""Keras on TensorFlow: the only place for private names of either."""
