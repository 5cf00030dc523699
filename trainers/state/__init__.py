"""Everything that decides the rest of a run, captured and restored."""
