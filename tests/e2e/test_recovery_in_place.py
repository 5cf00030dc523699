"""A step that fails is gone on after in its process, where the spec allows it."""

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from supervisor.wire.event_file import EventReader
from tests.support.attempts import read_result
from tests.support.boxes import box_in
from tests.support.command import PATIENCE, Trainwarden
from tests.support.zygote import Zygote

MISBEHAVE = Path(__file__).parents[2] / "trainers" / "reference" / "misbehave.py"
SCRIPT = """
import json, pathlib, sys, time
import keras, numpy as np, tensorflow as tf

keras.utils.set_random_seed(3)
width = 1 << 15 if "wide" in sys.argv else 8
x = np.random.default_rng(0).normal(size=(320, width)).astype("float32")
y = (x.sum(axis=1, keepdims=True) > 0).astype("float32")
once = pathlib.Path(sys.argv[2])


class Hungry(keras.layers.Layer):
    # Needs memory for as many rows as its variable says.
    def build(self, shape):
        self.rows = self.add_weight(
            shape=(), dtype="int32", initializer="ones", trainable=False, name="rows"
        )
        self.kernel = self.add_weight(shape=(width, 16))

    def call(self, x):
        shape = [tf.convert_to_tensor(self.rows), 1 << 18]
        noise = tf.random.stateless_uniform(shape, seed=[1, 2])
        return keras.ops.relu(x @ self.kernel) + 0.0 * tf.reduce_mean(noise)


class Trouble(keras.callbacks.Callback):
    # Comes once, after step 23, or before step 25, the first of an epoch.
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.02)
        if int(self.model.optimizer.iterations) == 23 and "wide" not in sys.argv:
            self.trouble()

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 3 and "wide" in sys.argv:
            self.trouble()

    def trouble(self):
        if not once.exists():
            once.touch()
            if "memory" in sys.argv:
                self.model.layers[0].rows.assign(200)
            else:
                kernel = self.model.layers[-1].kernel
                kernel.assign(kernel * float("nan"))
            if "file" in sys.argv:
                with open("written.txt", "a") as file:
                    file.write("here")


model = keras.Sequential([keras.Input((width,)), Hungry(), keras.layers.Dense(1)])
model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))
history = model.fit(
    x, y, batch_size=32, epochs=5, validation_split=0.2, callbacks=[Trouble()], verbose=0
)
weights = [one.tolist() for one in model.get_weights()]
json.dump([weights, history.history], open(sys.argv[1], "w"))
"""


@pytest.fixture
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a run leaves word that it had its trouble: not among its own files."""
    return tmp_path_factory.mktemp("once") / "once"


def spec(trainwarden: Trainwarden, once: Path, *more: str, in_place: bool) -> Path:
    """A run that has trouble, with snapshots at known steps."""
    script = trainwarden.script(SCRIPT)
    path = trainwarden.directory / "job.toml"
    listed = ", ".join(f'"{one}"' for one in ("result.json", str(once), *more))
    size = "256MiB" if "wide" in more else "128MiB"
    # Without oneDNN memory that runs out is an exception, and no end of the process.
    environment = 'environment = {TF_ENABLE_ONEDNN_OPTS = "0"}\n'
    memory = "memory" in more
    limit = f'[memory]\ncpu = "{size}"\n' if memory else ""
    path.write_text(
        f'script = "{script}"\nargs = [{listed}]\n{environment if memory else ""}'
        '[snapshots]\nevery = "10steps"\nmemory_every = "5steps"\n'
        f"[remedies]\nin_place = {str(in_place).lower()}\n{limit}"
    )
    return path


def ran(trainwarden: Trainwarden, path: Path) -> tuple[Any, list[dict[str, Any]], int]:
    """What the script left, the incidents, and how many attempts it took."""
    done = trainwarden("run", "--fresh", "--spec", path)
    assert done.returncode == 0, done.stdout + done.stderr
    status = trainwarden.status()
    assert status is not None
    incidents = trainwarden.json("incidents")
    return (
        read_result(trainwarden.directory / "result.json"),
        incidents,
        status["attempt"],
    )


def test_a_lost_loss_is_gone_back_from_in_one_attempt(
    trainwarden: Trainwarden, once: Path, zygote: Zygote
) -> None:
    """To the bit as if it had not happened; the incident says what was done."""
    path = spec(trainwarden, once, in_place=True)
    result, (incident,), attempts = ran(trainwarden, path)
    # It had its trouble: now it has none.
    zygote.run_plain(trainwarden.directory / "train.py", "whole.json", str(once))
    assert result == read_result(trainwarden.directory / "whole.json")
    assert attempts == 1
    assert incident["happened"] == "recovered"
    assert (incident["attempt"], incident["recovery"]) == (1, 1)
    assert (incident["cause"], incident["remedy"]["kind"]) == (
        "non_finite_loss",
        "rollback",
    )
    assert incident["remedy"]["because"].endswith("in the same process")
    lost = incident["failed_step"] - incident["restored_step"]
    assert incident["lost_steps"] == lost > 0
    assert incident["downtime_seconds"] > 0
    assert incident["proof"]["result"] == "proved"
    explained = trainwarden("explain", str(incident["id"])).stdout
    assert "went on in its process" in explained


@pytest.mark.slow
def test_exhausted_memory_ends_as_with_a_restart_in_the_same_slices(
    trainwarden: Trainwarden, once: Path
) -> None:
    """In one attempt where that is allowed, in two where it is not; the same bits."""
    result, (incident,), attempts = ran(
        trainwarden, spec(trainwarden, once, "memory", in_place=True)
    )
    assert attempts == 1
    assert (incident["cause"], incident["happened"]) == ("device_oom", "recovered")
    assert incident["remedy"]["kind"] == "microbatch"
    assert incident["restored_step"] == 20
    once.unlink()
    other, incidents, attempts = ran(
        trainwarden, spec(trainwarden, once, "memory", in_place=False)
    )
    assert attempts == 2
    assert [one["happened"] for one in incidents[1:]] == ["ended"]
    slices = [one["remedy"]["changes"]["slices"] for one in (incident, incidents[1])]
    assert slices[0] == slices[1]
    assert slices[0][1] > 1
    assert result == other


@pytest.mark.slow
def test_in_doubt_another_attempt_follows(trainwarden: Trainwarden, once: Path) -> None:
    """The script wrote a file after the snapshot, which only a restart puts back."""
    _, (incident,), attempts = ran(
        trainwarden, spec(trainwarden, once, "file", in_place=True)
    )
    assert attempts == 2
    assert incident["happened"] == "ended"


@pytest.mark.slow
def test_a_supervisor_that_does_not_answer_is_not_waited_for(
    trainwarden: Trainwarden, once: Path
) -> None:
    """The process ends as without such a way; once there is a supervisor again, the next
    attempt goes on, and there is one incident."""
    path = spec(trainwarden, once, in_place=True)
    process = trainwarden.start("run", "--spec", path)
    trainwarden.until(lambda s: (s["step"] or 0) >= 5)
    process.send_signal(signal.SIGSTOP)
    try:
        crash = until_there(trainwarden.state, "crash.json")
    finally:
        process.send_signal(signal.SIGCONT)
    assert process.wait(PATIENCE) == 0
    assert "NonFiniteLoss" in crash
    (incident,) = trainwarden.json("incidents")
    assert (incident["happened"], incident["cause"]) == ("ended", "non_finite_loss")
    status = trainwarden.status()
    assert status is not None
    assert status["attempt"] == 2


def until_there(directory: Path, name: str) -> str:
    """What a file of that name holds, as soon as there is one."""
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        for found in directory.rglob(name):
            return found.read_text()
        time.sleep(0.1)
    raise AssertionError(name)


def until_it_goes_on(directory: Path) -> None:
    """Wait until an attempt says that it goes on: a moment before anybody hears of it."""
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        for events in directory.rglob("events.jsonl"):
            if b'"kind":"goes_on"' in events.read_bytes():
                return
        time.sleep(0.002)
    raise AssertionError(directory)


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["loss", "memory"])
def test_an_incident_outlives_the_supervisor_that_allowed_to_go_on(
    trainwarden: Trainwarden, once: Path, trouble: str
) -> None:
    """SIGKILL between its answer and the next step: the same command finds out that the
    attempt went on, has the incident, and what was decided stays in force. On a busy
    machine the attempt may be gone before it went back to a snapshot: then the next one
    tells from where it went on, and how long that took is not known."""
    more = ("memory",) if trouble == "memory" else ()
    path = spec(trainwarden, once, *more, in_place=True)
    process = trainwarden.start("run", "--spec", path)
    until_it_goes_on(trainwarden.state)
    process.kill()
    process.communicate(timeout=PATIENCE)
    assert trainwarden.json("incidents") == []
    (events,) = trainwarden.state.rglob("events.jsonl")
    told = EventReader(events).poll()
    failed = next(one for one in told if one.kind == "step_failed")
    epochs = [
        one.ns for one in told if one.kind == "epoch_ended" and one.ns < failed.ns
    ]
    until = time.monotonic() - max(epochs) / 1e9  # the failed step is of the next epoch
    done = trainwarden("run", "--spec", path)
    assert done.returncode == 0, done.stdout + done.stderr
    (incident,) = trainwarden.json("incidents")
    assert (incident["happened"], incident["attempt"]) == ("recovered", 1)
    assert incident["recovery"] == 1
    cause = "device_oom" if more else "non_finite_loss"
    kind = "microbatch" if more else "rollback"
    assert (incident["cause"], incident["remedy"]["kind"]) == (cause, kind)
    assert incident["remedy"]["because"].endswith("in the same process")
    lost = incident["failed_step"] - incident["restored_step"]
    assert incident["lost_steps"] == lost > 0
    # Until the step itself, where the attempt came to one: the second supervisor came later.
    down = incident["downtime_seconds"]
    assert down is None or 0 < down < until
    status = trainwarden.status()
    assert status is not None
    assert status["attempt"] == 2
    result = read_result(trainwarden.directory / "result.json")
    if more:
        assert status["microbatch"]["slices"] > 1
        assert incident["remedy"]["changes"]["slices"][1] > 1
        return
    whole, incidents, _ = ran(trainwarden, spec(trainwarden, once, in_place=True))
    assert incidents == [incident]
    assert result == whole


def test_a_daemon_that_takes_an_attempt_over_knows_why_it_goes_on(
    tmp_path: Path, once: Path
) -> None:
    """SIGKILL to the daemon between its answer and the next step: the process trains on,
    and the next daemon has the incident."""
    with box_in(tmp_path) as box:
        box.config = '[metrics]\nlisten = "off"\n'
        first = box.begin()
        trains = Trainwarden(tmp_path, box.state)
        box.do("submit", "--spec", spec(trains, once, in_place=True))
        until_it_goes_on(box.state)
        box.end(first, signal.SIGKILL)
        box.begin()
        job = box.until(lambda one: one["state"] == "finished")
        (incident,) = box.json("incidents")
        assert job["attempt"] == 1
    assert (incident["happened"], incident["recovery"]) == ("recovered", 1)
    assert incident["cause"] == "non_finite_loss"
    lost = incident["failed_step"] - incident["restored_step"]
    assert incident["lost_steps"] == lost > 0
    assert 0 < incident["downtime_seconds"] < 5


@pytest.mark.slow
def test_memory_that_runs_out_in_the_very_first_step(trainwarden: Trainwarden) -> None:
    """There is no snapshot, nor anybody who knows what the optimizer began with: another
    attempt follows, and the reason is told."""
    path = trainwarden.directory / "job.toml"
    path.write_text(
        f'name = "train"\nscript = "{MISBEHAVE}"\nargs = ["nothing", "--hungry"]\n'
        'environment = {TF_ENABLE_ONEDNN_OPTS = "0"}\n[memory]\ncpu = "128MiB"\n'
        "[remedies]\nin_place = true\n"
    )
    done = trainwarden("run", "--fresh", "--spec", path)
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout + done.stderr
    assert "training does not go on in this process: there is no snapshot" in said
    assert "before its first step" in said
    (incident,) = trainwarden.json("incidents")
    assert (incident["happened"], incident["remedy"]["kind"]) == ("ended", "microbatch")
    status = trainwarden.status()
    assert status is not None
    assert status["attempt"] == 2


@pytest.mark.slow
def test_a_batch_that_was_drawn_ahead_is_no_leak(
    trainwarden: Trainwarden, once: Path
) -> None:
    """The first step of an epoch finds no memory: batches of 4 MiB, in hand and drawn
    ahead, were not there before it."""
    _, (incident,), attempts = ran(
        trainwarden, spec(trainwarden, once, "memory", "wide", in_place=True)
    )
    assert (attempts, incident["happened"]) == (1, "recovered")
    assert (incident["cause"], incident["failed_step"]) == ("device_oom", 24)
