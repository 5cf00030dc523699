"""``run`` on real Keras scripts: real memory exhaustion, real kills, real resumes."""

import importlib.util
import json
import math
import os
import re
import signal
import socket
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import PATIENCE, Trainwarden
from tests.support.memory_scripts import FRAGMENTING
from tests.support.zygote import Zygote

SEEDED = """
import json, sys
import keras, numpy as np
from keras import layers

keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(640, 8)).astype("float32")
y = (x.sum(axis=1) > 0).astype("float32")
model = keras.Sequential([
    keras.Input((8,)), layers.Dense(16, activation="relu"),
    layers.BatchNormalization(), layers.Dropout(0.2), layers.Dense(1),
])
model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))


class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        import time
        time.sleep(0.02)


history = model.fit(
    x, y, batch_size=32, epochs=6, validation_split=0.2, callbacks=[Slow()], verbose=0
)
weights = [w.tolist() for w in model.get_weights()]
json.dump([weights, history.history], open(sys.argv[1], "w"))
"""

HUNGRY = """
import keras, numpy as np
from keras import layers

keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(512, 32, 32, 3)).astype("float32")
y = (x.mean(axis=(1, 2, 3)) > 0).astype("float32")
model = keras.Sequential([
    keras.Input((32, 32, 3)),
    layers.Conv2D(48, 3, padding="same", activation="relu"),
    layers.Conv2D(16, 3, padding="same", activation="relu"),
    layers.GlobalAveragePooling2D(), layers.BatchNormalization(name="norm"),
    layers.Dropout(0.1, name="drop"), layers.Dense(1),
])
model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))
model.fit(x, y, batch_size=256, epochs=2, verbose=2)
print("iterations", int(model.optimizer.iterations.numpy()))
"""

OWN_STEP = (
    HUNGRY.replace(
        "model = keras.Sequential([",
        """import sys


class Own(keras.Model):
    def train_step(self, data):
        return super().train_step(data)


body = keras.Sequential([""",
    )
    .replace(
        "model.compile(",
        "model = Own(body.inputs[0], body.outputs[0])\nmodel.compile(",
    )
    .replace("batch_size=256", "batch_size=int(sys.argv[1])")
)


def result(path: Path) -> Any:
    """What a script wrote at its end."""
    return json.loads(path.read_text())


def test_killed_and_drained_is_bit_identical_to_undisturbed(
    trainwarden: Trainwarden, zygote: Zygote
) -> None:
    """A SIGKILL and a drain later, every bit of weights and History is what plain Python
    ends with."""
    script = trainwarden.script(SEEDED)
    zygote.run_plain(script, "plain.json")
    command = (
        "run",
        "--name",
        "hit",
        "--snapshot-every",
        "10steps",
        script,
        "hit.json",
    )
    process = trainwarden.start(*command)
    hit = trainwarden.until(
        lambda s: s["pid"] is not None and (s["step"] or 0) >= 25, job="hit"
    )
    os.kill(hit["pid"], signal.SIGKILL)
    trainwarden.until(lambda s: s["attempt"] == 2 and (s["step"] or 0) >= 45, job="hit")
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 75
    assert trainwarden(*command).returncode == 0
    directory = trainwarden.directory
    assert result(directory / "hit.json") == result(directory / "plain.json")
    (status,) = trainwarden.json("status")
    assert (status["exact"], status["standby"]) == (True, None)
    assert not list(trainwarden.state.rglob("imports.json"))  # nobody wanted a standby
    incidents = trainwarden.json("incidents", "hit")
    assert len(incidents) == 1, incidents
    (incident,) = incidents
    assert incident["cause"] == "preempted"
    assert incident["failed_step"] >= 25
    assert incident["restored_step"] >= 20  # on disk; in memory it may be any
    assert incident["lost_steps"] == incident["failed_step"] - incident["restored_step"]
    assert incident["lost_steps"] < 20
    assert incident["downtime_seconds"] > 0


@pytest.mark.parametrize("onednn", ["0", pytest.param("1", marks=pytest.mark.slow)])
def test_out_of_memory_for_real(
    trainwarden: Trainwarden, onednn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One restart in slices ends the run, after an exception or a native crash.

    Without oneDNN TensorFlow raises ResourceExhaustedError; with it the process dies
    of SIGSEGV, and the cause stands only in what the allocator left behind. What slices
    change (BatchNormalization, Dropout) stands in the incident.

    The limit holds one tensor of the first layer's size (48 MiB) and not two, however the
    operations overlap: with 128 MiB a busy machine had room for a second one, in pieces.
    """
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", onednn)
    script = trainwarden.script(HUNGRY)
    done = trainwarden("run", "--cpu-memory", "96MiB", script)
    assert done.returncode == 0, done.stdout + done.stderr
    (incident,) = trainwarden.json("incidents")
    assert incident["cause"] == "device_oom"
    assert incident["remedy"]["kind"] == "microbatch"
    assert incident["memory"]["limit_bytes"] == pytest.approx(96 * 2**20, rel=0.01)
    status = trainwarden.status()
    assert status is not None
    assert status["attempt"] == 2
    assert status["effective_batch"] == 256
    assert status["microbatch"]["slices"] > 1
    assert status["microbatch"]["size"] < 256
    assert status["overrides"]["slices"] == status["microbatch"]["slices"]
    assert (status["asked"], status["unmet"]) == ({}, {})
    log = max(trainwarden.state.rglob("output.log")).read_text()
    assert "iterations 4" in log
    statistics, noise = incident["deviations"]
    assert statistics.startswith("layer 'norm' (BatchNormalization) keeps statistics")
    assert noise.startswith("layer 'drop' (Dropout) draws random numbers")
    assert f"not quite the same: {statistics}; {noise}" in status["promise"]
    explained = trainwarden("explain", str(incident["id"])).stdout
    assert "ran out of memory" in explained
    assert "Note: layer 'norm'" in explained


@pytest.mark.slow
def test_a_batch_that_cannot_be_sliced_ends_with_one_that_fits(
    trainwarden: Trainwarden,
) -> None:
    """A model with its own train_step: one restart measures, and tells what would fit.

    The size that was told does fit.
    """
    script = trainwarden.script(OWN_STEP)
    failed = trainwarden("run", "--cpu-memory", "128MiB", script, "256")
    assert failed.returncode == 1, failed.stdout + failed.stderr
    last = trainwarden.json("incidents")[-1]
    assert (last["cause"], last["remedy"]["kind"]) == ("device_oom", "stop")
    told = re.search(
        r"Own has a train_step of its own; about (\d+) samples would fit",
        last["remedy"]["because"],
    )
    assert told, last["remedy"]
    assert 16 < int(told[1]) < 256
    done = trainwarden(
        "run", "--name", "smaller", "--cpu-memory", "128MiB", script, told[1]
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told_of = trainwarden.json("incidents", "smaller")
    assert [one for one in told_of if one["remedy"]["kind"] != "go_on"] == []


@pytest.mark.slow
def test_a_step_of_its_own_goes_on_with_smaller_batches_where_that_is_allowed(
    trainwarden: Trainwarden,
) -> None:
    """One restart; epochs and steps stay, the incident says what is another thing."""
    script = trainwarden.script(OWN_STEP)
    spec = trainwarden.directory / "job.toml"
    spec.write_text(
        f'script = "{script}"\nargs = ["256"]\n'
        '[memory]\ncpu = "128MiB"\n[microbatch]\nreduce = "linear"\n'
    )
    done = trainwarden("run", "--spec", spec)
    assert done.returncode == 0, done.stdout + done.stderr
    (incident,) = [
        one for one in trainwarden.json("incidents") if one["remedy"]["kind"] != "go_on"
    ]
    assert incident["cause"] == "device_oom"
    assert "each with an update of its own" in incident["deviations"][0]
    (status,) = trainwarden.json("status")
    assert status["microbatch"]["slices"] > 1
    assert status["effective_batch"] == status["microbatch"]["size"] < 256
    assert status["step"] == 4  # two epochs of 512 samples, as the script has it


@pytest.mark.slow
def test_metrics_are_served_while_it_runs(trainwarden: Trainwarden) -> None:
    """``--metrics`` answers with the run's step and state, on the address given, and with
    the fragmentation that TensorFlow's own dump has of the same step, within 1 %."""
    script = trainwarden.script(FRAGMENTING)
    spec = trainwarden.directory / "job.toml"
    port = free_port()
    spec.write_text(
        f'script = "{script}"\nargs = ["400"]\nenvironment = {{WAIT = "1"}}\n'
        f'[memory]\ncpu = "256MiB"\n[metrics]\nlisten = "127.0.0.1:{port}"\n'
    )
    process = trainwarden.start("run", "--spec", spec)
    trainwarden.until(
        lambda s: (s["step"] or 0) > 15 and s["allocator"]["source"] == "map"
    )
    asked = trainwarden.json("memory", "train", "--wait", str(PATIENCE))
    answer, dump = dumped(trainwarden.state)
    theirs = fragmentation_of(dump)
    told = scraped_until(port, "trainwarden_allocator_fragmentation_ratio", theirs)
    body = fetch(port)
    answer.unlink()  # training goes on
    assert asked["live"]
    assert theirs > 0.1
    assert told == pytest.approx(theirs, rel=0.01)
    assert told == pytest.approx(dump.stats.fragmentation_metric, rel=0.01)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 75
    assert 'state="running"' in body
    assert "pid" not in body


def dumped(state: Path) -> tuple[Path, Any]:
    """The answer of the run that was asked, and its ``MemoryDump``, read by TensorFlow's
    own description of it: without TensorFlow, which takes seconds to import."""
    (answer,) = state.rglob("memory.json")
    found = importlib.util.find_spec("tensorflow")
    assert found is not None
    assert found.origin is not None
    path = Path(found.origin).parent / "core/protobuf/bfc_memory_map_pb2.py"
    spec = importlib.util.spec_from_file_location("bfc_memory_map_pb2", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    content = answer.with_name("memory.map").read_bytes()
    return answer, module.MemoryDump.FromString(content)


def fragmentation_of(dump: Any) -> float:
    """(free - largest free) / free, by its chunks."""
    free: list[int] = [chunk.size for chunk in dump.chunk if not chunk.in_use]
    return (sum(free) - max(free)) / sum(free)


def scraped_until(port: int, name: str, wanted: float) -> float:
    """The value of a metric as soon as it is near ``wanted``, or the last one that came:
    a scrape shows the page of a moment ago."""
    ends, value = time.monotonic() + 30.0, math.nan
    while time.monotonic() < ends and value != pytest.approx(wanted, rel=0.01):
        time.sleep(0.2)
        (text,) = re.findall(
            rf'^{name}{{run="train"}} (\S+)$', fetch(port), re.MULTILINE
        )
        value = float(text)
    return value


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def fetch(port: int) -> str:
    """The metrics page."""
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    assert answer.status == 200
    return body
