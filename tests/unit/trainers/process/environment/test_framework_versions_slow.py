"""``check`` and ``run`` give the same answer, in environments of every kind."""

from pathlib import Path

import pytest

from tests.support.version_environments import agree, environment

pytestmark = pytest.mark.slow

VERSIONS: tuple[dict[str, str], ...] = (
    {"tensorflow": "2.21.0", "keras": "3.15.1"},
    {"tensorflow": "2.20.0", "keras": "3.12.4"},
    {"tensorflow": "2.16.2", "keras": "3.6.0"},
    {"tensorflow": "2.22.0", "keras": "3.16.0"},
    {"tensorflow": "2.19.1", "keras": "3.15.1"},
    {"tensorflow": "2.21.0", "keras": "4.0.0"},
)


@pytest.mark.parametrize("versions", VERSIONS, ids=str)
@pytest.mark.parametrize("broken", [False, True], ids=["whole", "broken"])
def test_check_and_run_agree(
    tmp_path: Path, versions: dict[str, str], *, broken: bool
) -> None:
    """Twelve environments: known or not, as they were or not; the same sentence of both,
    before training starts, and what fails is kept by nobody."""
    path = environment(tmp_path, broken=broken, **versions)
    answer = agree(tmp_path, path, fits=True)
    assert bool(answer["refused"]) == broken
    if broken:
        assert "Trainer._symbolic_build is missing" in answer["refused"]
        assert list((tmp_path / "cache").glob("self-test-*.json")) == []
