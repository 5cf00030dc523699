"""Memory of the host that leaks, and memory that only grows and settles."""

import pytest

from tests.support.command import PATIENCE, Trainwarden
from tests.support.foreseen import page_rss, planned, result
from tests.support.memory_scripts import HOST_LEAKING, SETTLING

pytestmark = pytest.mark.slow


def test_kept_arrays_are_foreseen(
    trainwarden: Trainwarden, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loader keeps arrays in main memory: the same, against the spec's limit."""
    script = trainwarden.script(HOST_LEAKING)
    plain = trainwarden("run", "--name", "plain", script, "plain.json")
    assert plain.returncode == 0, plain.stdout
    status = trainwarden.status("plain")
    assert status is not None
    used = max(page_rss(trainwarden, "plain"))
    spec = trainwarden.directory / "job.toml"
    spec.write_text(
        f'script = "{script}"\nname = "leaky"\nargs = ["leaky.json"]\n'
        f"[memory]\nhost = {used + 500 * 2**20}\n"
    )
    monkeypatch.setenv("LEAK", "arrays")
    leaky = trainwarden("run", "--spec", spec)
    assert leaky.returncode == 0, leaky.stdout
    directory = trainwarden.directory
    assert result(directory / "leaky.json") == result(directory / "plain.json")
    restarts = planned(trainwarden, "leaky")
    assert restarts
    for one in restarts:
        assert one["cause"] == "host_oom"
        assert one["lost_steps"] == 0
        assert one["autopsy"]["verdict"] == "host"
        held = [holder["what"] for holder in one["autopsy"]["holders"]]
        assert any(what.startswith("kept by Loader.read: float32") for what in held)


def test_what_settles_is_left_alone(
    trainwarden: Trainwarden, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window that fills, a cache, validations, longer sequences: no incident at all.

    And who holds what is told while it runs.
    """
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    script = trainwarden.script(SETTLING)
    process = trainwarden.start("run", "--cpu-memory", "256MiB", script, "out.json")
    trainwarden.until(lambda status: (status["step"] or 0) > 60)
    memory = trainwarden.json("memory", "train", "--wait", "60")
    assert process.wait(PATIENCE) == 0
    assert memory["live"]
    held = {one["what"]: one["count"] for one in memory["holders"]}
    assert held["kept by Window.kept: float32 (131072,)"] >= 60
    assert trainwarden.json("incidents") == []
