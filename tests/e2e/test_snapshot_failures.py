"""Disks that are full while a real run saves: it trains on."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from supervisor.wire.paths import StatePaths
from tests.support.command import PATIENCE, Trainwarden
from tests.support.small_disk import fill, mounted

SCRIPT = """
import json, os, time
import keras, numpy as np

keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(640, 8)).astype("float32")
y = (x.sum(axis=1) > 0).astype("float32")
model = keras.Sequential([keras.layers.Dense(64, activation="relu"),
                          keras.layers.Dense(64, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))

class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.02 * os.path.exists("wait"))

    def on_epoch_begin(self, epoch, logs=None):
        while epoch == 59 and os.path.exists("wait"):
            time.sleep(0.1)

model.fit(x, y, batch_size=32, epochs=60, callbacks=[Slow()], verbose=0)
json.dump([v.numpy().tolist() for v in model.variables], open("end.json", "w"))
"""


def spec(trainwarden: Trainwarden, memory: Path) -> Path:
    """A job that keeps its memory tier in ``memory``."""
    path = trainwarden.directory / "job.toml"
    script = trainwarden.script(SCRIPT)
    path.write_text(
        f'script = "{script}"\nname = "train"\n'
        f'[snapshots]\nevery = "10steps"\nmemory = "{memory}"\n'
    )
    return path


def test_neither_tier_has_room(trainwarden: Trainwarden, tmp_path: Path) -> None:
    """Both file systems are smaller than the state: the run ends well, an incident a
    tier says why nothing was saved, and `explain` says that training went on."""
    snapshots = StatePaths(trainwarden.state).run("train", 1).snapshots
    with mounted(snapshots, "16k"), mounted(tmp_path / "memory", "64k") as memory:
        job = spec(trainwarden, memory)
        done = trainwarden("run", "--spec", job)
        assert done.returncode == 0, done.stdout + done.stderr
        assert (trainwarden.directory / "end.json").exists()
        incidents = trainwarden.json("incidents")
    found = {incident["happened"]: incident for incident in incidents}
    assert set(found) == {"unsaved_in_memory", "unsaved_on_disk"}, incidents
    assert len(incidents) == 2
    disk = found["unsaved_on_disk"]
    assert (disk["cause"], disk["remedy"]["kind"]) == ("disk_full", "go_on")
    assert "No space left" in disk["because"][0]["text"]
    assert "two snapshots need" in found["unsaved_in_memory"]["because"][0]["text"]
    assert "could not be written to disk" in done.stderr
    assert f"(in {snapshots}: " in done.stderr
    assert "snapshots go to disk only" in done.stderr
    explained = trainwarden("explain", str(disk["id"])).stdout
    assert "trained on" in explained
    assert "last good snapshot stays" in " ".join(explained.split())


@pytest.mark.slow
def test_not_one_page_in_memory(trainwarden: Trainwarden, tmp_path: Path) -> None:
    """A tmpfs that was full before training began is one incident, however many
    snapshots would have gone there, and what is said of it."""
    with mounted(tmp_path / "memory", "64k") as memory:
        fill(memory / "hog")
        done = trainwarden("run", "--spec", spec(trainwarden, memory))
        assert done.returncode == 0, done.stdout + done.stderr
        (incident,) = trainwarden.json("incidents")
    assert incident["happened"] == "unsaved_in_memory"
    assert (incident["cause"], incident["remedy"]["kind"]) == ("disk_full", "go_on")
    assert "No space left" in incident["because"][0]["text"]
    while_it_ran, summary, _ = done.stderr.partition("train: finished")
    assert summary
    assert while_it_ran.count("snapshots go to disk only") == 1


@pytest.mark.slow
def test_full_from_one_moment_on(trainwarden: Trainwarden, tmp_path: Path) -> None:
    """The disk fills up while training saves to it, and training is killed: it goes on
    from memory, each attempt has its incident, what was good on disk stays good, and
    the run ends with the bits of one that nothing happened to."""
    whole = Trainwarden(tmp_path / "whole", tmp_path / "whole" / "state")
    whole.directory.mkdir()
    assert whole("run", whole.script(SCRIPT)).returncode == 0
    expected = json.loads((whole.directory / "end.json").read_text())
    snapshots = StatePaths(trainwarden.state).run("train", 1).snapshots
    with mounted(snapshots, "16m"), mounted(tmp_path / "memory", "64m") as memory:
        wait = trainwarden.directory / "wait"
        wait.touch()
        running = trainwarden.start("run", "--spec", spec(trainwarden, memory))
        trainwarden.until(lambda s: (s["step"] or 0) > 30)
        hog = snapshots / "hog"
        fill(hog)
        first = until_incident(trainwarden, "unsaved_on_disk", attempt=1)
        assert "No space left" in first["because"][0]["text"]
        status = trainwarden.status()
        assert status is not None
        assert status["state"] == "running"
        assert "cannot be saved on disk: " in trainwarden("status").stdout
        os.kill(status["pid"], signal.SIGKILL)
        until_incident(trainwarden, "unsaved_on_disk", attempt=2)
        verified = json.loads(
            trainwarden("snapshots", "verify", "train", "--json").stdout
        )
        durable = [row for row in verified if row["tier"] == "durable"]
        assert durable
        assert all(row["whole"] for row in durable)
        hog.unlink()
        wait.unlink()
        out, _ = running.communicate(timeout=PATIENCE)
        assert running.returncode == 0, out
        unsaved = until_incident(trainwarden, "unsaved_on_disk", attempt=2)
        assert "could be written again" in unsaved["advice"]
        ended = until_incident(trainwarden, "ended", attempt=1)
        assert ended["restored_step"] > 30
        (newest, *_) = trainwarden.json("snapshots", "train")
        assert (newest["tier"], newest["fit_done"]) == ("durable", True)
    assert json.loads((trainwarden.directory / "end.json").read_text()) == expected


def until_incident(
    trainwarden: Trainwarden, happened: str, *, attempt: int
) -> dict[str, Any]:
    """The incident of this kind; waited for."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for incident in trainwarden.json("incidents"):
            if (incident["happened"], incident["attempt"]) == (happened, attempt):
                found: dict[str, Any] = incident
                return found
        time.sleep(0.05)
    pytest.fail(f"never came: {trainwarden.json('incidents')}")
