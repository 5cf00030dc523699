"""What holds for every test."""

from hypothesis import settings

settings.register_profile("trainwarden", deadline=None)  # no test asserts a time
settings.load_profile("trainwarden")
