"""The child side: everything that runs inside a training process."""
