"""State that belongs to no model: reached from the script, marked, saved, given back."""
