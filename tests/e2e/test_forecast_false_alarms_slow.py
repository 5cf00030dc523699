"""Twenty trainings that grow and settle are left alone, each of them a real one."""

import pytest

from tests.support.command import Trainwarden
from tests.support.settling import KINDS, settle

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_left_alone(
    trainwarden: Trainwarden, monkeypatch: pytest.MonkeyPatch, kind: str, seed: int
) -> None:
    """It ends well, in one attempt, and no restart was planned."""
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    found = settle(trainwarden, kind, seed)
    assert found.code == 0, found.out
    assert found.happened == (), found.out
    assert found.steps > 100
