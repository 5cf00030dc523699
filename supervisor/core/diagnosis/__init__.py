"""The diagnosis of an attempt: evidence, signatures, scoring, the cause."""
