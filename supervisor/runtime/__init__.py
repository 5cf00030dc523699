"""One run of a job: the loop, what it observes, and what it does about it."""
