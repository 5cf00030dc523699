"""The life of a run: events, states, the transition table, effects."""
