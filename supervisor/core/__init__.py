"""Values and pure functions: what happened, what it means, what to do about it."""
