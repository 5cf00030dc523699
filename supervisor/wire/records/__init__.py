"""Records that training leaves for the supervisor: its end, estimates, trials, evidence."""
