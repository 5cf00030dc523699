"""A step that failed, or gave no number: recovered from, refused, or left out."""
