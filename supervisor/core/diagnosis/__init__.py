"""Why an attempt ended: evidence, signatures, scoring, the diagnosis."""
