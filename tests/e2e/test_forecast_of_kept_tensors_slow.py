"""Leaks of tensors in a real run: foreseen, restarted at a snapshot, the same bits."""

import pytest

from tests.support.command import Trainwarden
from tests.support.foreseen import planned, result
from tests.support.memory_scripts import LEAKING

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("pace", ["0.05", "0"])
def test_kept_tensors_are_foreseen(
    trainwarden: Trainwarden, monkeypatch: pytest.MonkeyPatch, pace: str
) -> None:
    """A callback keeps tensors: planned restarts lose no step and change no bit.

    At 10 MiB a second, and as fast as steps can be: all is full within some seconds.
    """
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    script = trainwarden.script(LEAKING)
    limit = ("--cpu-memory", "192MiB")
    plain = trainwarden("run", "--name", "plain", *limit, script, "plain.json")
    assert plain.returncode == 0, plain.stdout
    assert planned(trainwarden, "plain") == []
    monkeypatch.setenv("LEAK", "tensors")
    monkeypatch.setenv("PACE", pace)
    leaky = trainwarden("run", "--name", "leaky", *limit, script, "leaky.json")
    assert leaky.returncode == 0, leaky.stdout
    directory = trainwarden.directory
    assert result(directory / "leaky.json") == result(directory / "plain.json")
    restarts = planned(trainwarden, "leaky")
    assert restarts
    for one in restarts:
        assert one["cause"] == "device_oom"
        assert one["remedy"]["kind"] == "restart"
        assert one["lost_steps"] == 0
        assert one["restored_step"] == one["failed_step"]
        assert one["autopsy"]["verdict"] == "leak"
    explained = trainwarden("explain", str(restarts[0]["id"])).stdout
    assert "was ended on purpose" in explained
    assert "The verdict is a leak" in " ".join(explained.split())
