"""A job of the daemon: phases, events, the transition table, the schedule."""
