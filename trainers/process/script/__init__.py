"""What the script of a person is given: itself as it was, its draws, its own modules."""
