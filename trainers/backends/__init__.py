"""What differs between frameworks, behind one protocol."""
