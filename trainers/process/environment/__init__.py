"""The environment that training runs in: versions, their self-test, what is installed."""
