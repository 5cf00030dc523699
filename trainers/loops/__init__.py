"""Loops of the script's own: their calls recorded, and answered from the record."""
