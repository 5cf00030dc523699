"""The user's cache: what is made or found out once for each environment."""

from collections.abc import Mapping
from pathlib import Path

CACHE = "TRAINWARDEN_CACHE_DIR"
"""Environment variable with the cache's directory, in place of the user's own."""


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Where it is kept, by the XDG base directory specification.

    Raises RuntimeError where this user has no home.
    """
    if environment.get(CACHE):
        return Path(environment[CACHE])
    base = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "trainwarden"
