"""A batch worked through in slices: when, in how many, of which size."""
