"""Everything that somebody gets wrong in their first hour: a table, by subject."""
