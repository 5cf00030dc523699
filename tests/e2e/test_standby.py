"""Standby for real: the next attempt has imported already, and ends to the same bits."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from supervisor.wire.paths import RunPaths
from tests.support.command import PATIENCE, Trainwarden, marked
from tests.support.zygote import Zygote

TRAINS = """
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import json, pathlib, sys, time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(160, 8, 8, 3)).astype("float32")
y = (x.sum(axis=(1, 2, 3)) > 0).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(160).batch(16)
model = keras.Sequential([
    keras.Input((8, 8, 3)), layers.RandomFlip(), layers.Conv2D(4, 3, activation="relu"),
    layers.BatchNormalization(), layers.Dropout(0.2), layers.Flatten(), layers.Dense(1),
])
model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))


class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(float(sys.argv[2]))
        while self.model.optimizer.iterations >= 8 and pathlib.Path("hold").exists():
            time.sleep(0.02)


history = model.fit(data, epochs=int(sys.argv[3]), callbacks=[Slow()], verbose=0)
weights = [w.tolist() for w in model.get_weights()]
json.dump([weights, history.history, np.random.random(3).tolist()], open(sys.argv[1], "w"))
"""
SPEC = """
[restart]
standby = true
back_off = "100ms"
[snapshots]
memory_every = "2 steps"
"""
WAITS = "a standby waits to be attempt {}, and takes "


def command(trainwarden: Trainwarden, *words: str) -> tuple[str | Path, ...]:
    """``run`` with a standby."""
    spec = trainwarden.directory / "spec.toml"
    spec.write_text(SPEC)
    script = trainwarden.script(TRAINS)
    return ("run", "--spec", spec, script, *words)


def until_one_waits(trainwarden: Trainwarden, attempt: int) -> int:
    """Wait for the standby of ``attempt``: the process that trains meanwhile."""
    wanted = WAITS.format(attempt)
    found = trainwarden.until(lambda s: wanted in (s["standby"] or ""))
    assert found["attempt"] == attempt - 1
    assert isinstance(found["pid"], int)
    return found["pid"]


def waiting(trainwarden: Trainwarden, *, but: int) -> list[int]:
    """The processes that stand by: not ``but``, which trains."""
    found = marked(trainwarden.directory)
    words = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in found}
    return [pid for pid, one in words.items() if b"--standby" in one and pid != but]


def runs(attempt: int) -> Callable[[dict[str, Any]], bool]:
    """Whether a status is of that attempt, and it has a process."""
    return lambda s: s["attempt"] == attempt and s["pid"] is not None


def run_of(trainwarden: Trainwarden) -> RunPaths:
    """Its first run."""
    return RunPaths(trainwarden.state / "jobs" / "train" / "run-1")


def test_killed_twice_is_bit_identical_to_undisturbed(
    trainwarden: Trainwarden, zygote: Zygote
) -> None:
    """Each time the next attempt is the process that stood by. Training is held until
    there is one."""
    hold = trainwarden.directory / "hold"
    hold.touch()
    words = ("0", "6")
    process = trainwarden.start(*command(trainwarden, "hit.json", *words))
    for attempt in (2, 3):
        trains = until_one_waits(trainwarden, attempt)
        (stands_by,) = [
            pid
            for pid in waiting(trainwarden, but=trains)
            if b"attempt_shim" not in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        os.kill(trains, signal.SIGKILL)
        went_on = trainwarden.until(runs(attempt))
        assert went_on["pid"] == stands_by
    hold.unlink()
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, out
    for attempt in (2, 3):
        assert f"attempt {attempt} goes on in the process that stood by" in out
    incidents = trainwarden.json("incidents", "train")
    ends = [one for one in incidents if one["remedy"]["kind"] != "go_on"]
    assert [one["cause"] for one in ends] == ["preempted", "preempted"]
    assert all(one["restored_step"] >= 4 for one in ends)
    status = trainwarden.status()
    assert status is not None
    assert (status["attempt"], status["exact"], status["standby"]) == (3, True, None)
    assert not run_of(trainwarden).standby.exists()
    directory = trainwarden.directory
    zygote.run_plain(directory / "train.py", "plain.json", *words)
    assert (directory / "hit.json").read_text() == (
        directory / "plain.json"
    ).read_text()


@pytest.mark.slow
def test_a_standby_that_was_killed_costs_a_cold_start(trainwarden: Trainwarden) -> None:
    """It is told, training does not notice; the next drain ends the next standby."""
    line = command(trainwarden, "out.json", "0.1", "400")
    process = trainwarden.start(*line)
    trains = until_one_waits(trainwarden, 2)
    for pid in waiting(trainwarden, but=trains):
        os.kill(pid, signal.SIGKILL)
    trainwarden.until(
        lambda s: s["standby"] == "no standby for attempt 2: it has ended"
    )
    found = trainwarden.status()
    assert found is not None
    assert (found["pid"], found["attempt"]) == (trains, 1)
    os.kill(trains, signal.SIGKILL)
    trains = until_one_waits(trainwarden, 3)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 75, out
    assert "stood by" not in out
    assert not marked(trainwarden.directory)
    assert not run_of(trainwarden).standby.exists()
    attempts = run_of(trainwarden).root / "attempts"
    assert sorted(one.name for one in attempts.iterdir()) == ["0001", "0002"]


@pytest.mark.slow
def test_no_standby_outlives_its_supervisor(trainwarden: Trainwarden) -> None:
    """Nor does what it leaves keep the next from its attempt."""
    line = command(trainwarden, "out.json", "0.1", "400")
    process = trainwarden.start(*line)
    until_one_waits(trainwarden, 2)
    process.kill()
    process.communicate(timeout=PATIENCE)
    deadline = time.monotonic() + PATIENCE
    while marked(trainwarden.directory):
        assert time.monotonic() < deadline, "it was left behind"
        time.sleep(0.05)
    again = trainwarden.start(*line)
    trainwarden.until(lambda s: s["attempt"] == 2 and (s["step"] or 0) > 0)
    again.send_signal(signal.SIGTERM)
    out, _ = again.communicate(timeout=PATIENCE)
    assert again.returncode == 75, out
