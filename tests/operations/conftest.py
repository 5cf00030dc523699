"""Tools of the machine that operations files are checked with."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def root() -> Path:
    """The root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def tool() -> Callable[[str], str]:
    """Finds a program. A laptop may lack it (skip); in CI it has to be there (fail)."""

    def find(name: str) -> str:
        found = shutil.which(name)
        if found is None and os.environ.get("CI"):
            pytest.fail(f"{name} is not installed; .ci/run installs it")
        if found is None:
            pytest.skip(f"{name} is not installed")
        return found

    return find
