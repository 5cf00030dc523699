"""Functions that TensorFlow compiled or traced: their calls, effects and names."""
