"""A pool that falls into pieces in a real run: foreseen; and what it averts is real."""

import pytest

from tests.support.command import Trainwarden
from tests.support.foreseen import planned, result
from tests.support.memory_scripts import FALLING_APART


def test_fragmentation_is_foreseen(
    trainwarden: Trainwarden, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Restarted in time, with no step lost and the same bits; without, it fails."""
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    script = trainwarden.script(FALLING_APART)
    limit = ("--cpu-memory", "128MiB")
    plain = trainwarden("run", "--name", "plain", *limit, script, "plain.json")
    assert plain.returncode == 0, plain.stdout
    assert trainwarden.json("incidents", "plain") == []
    monkeypatch.setenv("LEAK", "pieces")
    done = trainwarden("run", "--name", "apart", *limit, script, "apart.json")
    assert done.returncode == 0, done.stdout
    directory = trainwarden.directory
    assert result(directory / "apart.json") == result(directory / "plain.json")
    restarts = planned(trainwarden, "apart")
    assert restarts
    for one in restarts:
        assert one["cause"] == "device_oom_fragmentation"
        assert one["lost_steps"] == 0
        assert one["autopsy"]["verdict"] == "fragmentation"


def test_without_a_forecast_it_fails(
    trainwarden: Trainwarden, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same script, left to itself: a real failure, told as fragmentation."""
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    monkeypatch.setenv("LEAK", "pieces")
    script = trainwarden.script(FALLING_APART)
    spec = trainwarden.directory / "job.toml"
    spec.write_text(
        f'script = "{script}"\nname = "apart"\nargs = ["apart.json"]\n'
        '[memory]\ncpu = "128MiB"\n[forecast]\nrestart_below = "off"\n'
    )
    done = trainwarden("run", "--spec", spec)
    assert done.returncode == 0, done.stdout
    (first, *_) = trainwarden.json("incidents", "apart")
    assert first["happened"] == "ended"
    assert first["cause"] == "device_oom_fragmentation"
    assert first["autopsy"]["verdict"] == "fragmentation"
