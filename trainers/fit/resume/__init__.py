"""A ``fit`` that goes on from a snapshot: found, matched, restored, proved."""
