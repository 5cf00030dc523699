"""deploy/SECURITY.md names tests that are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_it_names_is_there() -> None:
    """A claim without its test would be one that nobody shows."""
    named = re.findall(
        r"`((?:test|check)_\w+)`", (ROOT / "deploy/SECURITY.md").read_text()
    )
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    assert len(named) > 10
    assert [name for name in named if f"def {name}(" not in tests] == []
