"""Everything that touches the machine, one thing a file."""
