"""From the version before to this one, under jobs that run: no step is lost.

The version before comes from the history of the repository, is installed, runs, and is
replaced where it is installed, as ``pip`` does it: nothing waits for a good moment.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor.wire.event_file import EventReader, RecordKind
from supervisor.wire.paths import StatePaths
from supervisor.wire.snapshots.manifest import DURABLE, MEMORY
from tests.support.boxes import BoxUnderTest, box_in, until
from tests.support.command import PATIENCE, Trainwarden
from tests.support.installation import Installation

BEFORE = "3e06fd90d8bf3383e41ee5e6bea73a8b2059bb98"
"""The last version of the old layout: every module was moved after it, and reasons were
sentences. What it has written, and what of it still runs, is met by this one."""

TRAINS = """
import json, pathlib, sys, time
import keras, numpy as np

name = sys.argv[1]
limit, steps = pathlib.Path(name + ".limit"), open(name + ".steps", "a")
keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(640, 8)).astype("float32")
y = (x.sum(axis=1) > 0).astype("float32")
model = keras.Sequential([
    keras.Input((8,)), keras.layers.Dense(16, activation="relu"),
    keras.layers.BatchNormalization(), keras.layers.Dropout(0.2), keras.layers.Dense(1),
])
model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))


class Gate(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        done = int(self.model.optimizer.iterations)
        while limit.exists() and done >= int(limit.read_text()):
            time.sleep(0.01)

    def on_train_batch_end(self, batch, logs=None):
        print(int(self.model.optimizer.iterations), file=steps, flush=True)


history = model.fit(
    x, y, batch_size=32, epochs=8, validation_split=0.2, verbose=0,
    callbacks=[Gate(), keras.callbacks.ReduceLROnPlateau(patience=1)],
)
values = [v.numpy().tolist() for v in [*model.variables, *model.optimizer.variables]]
json.dump([values, history.history], open(name + ".json", "w"))
"""
"""It goes to the step in NAME.limit, and waits there; without that file to its end."""

STEPS = 128

SPEC = """
script = "{script}"
name = "{name}"
args = ["{name}"]
snapshots = {{ every = "20steps", memory_every = "5steps" }}
"""

DIES = """
import os, pathlib, time
tries = len(pathlib.Path("tries").read_text()) if pathlib.Path("tries").exists() else 0
pathlib.Path("tries").write_text("x" * (tries + 1))
while tries == 2 and not pathlib.Path("go").exists():
    time.sleep(0.01)
os.kill(os.getpid(), 9)
"""
"""Twice at once, then when it is told to, and so on."""

DYING = """
script = "{script}"
restart = {{ without_progress = 2, back_off = "1ms" }}
"""


def go_on(directory: Path, name: str, *, until_step: int | None) -> None:
    """How far a script may go; None: to its end."""
    limit = directory / f"{name}.limit"
    if until_step is None:
        limit.unlink()
        return
    limit.with_suffix(".new").write_text(str(until_step))
    limit.with_suffix(".new").rename(limit)


def steps(directory: Path, name: str) -> list[int]:
    """The steps that a script has made, in their order."""
    path = directory / f"{name}.steps"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def restored(state: Path, name: str, attempt: int) -> dict[str, Any]:
    """What an attempt said of the snapshot that it went on from."""
    paths = StatePaths(state).run(name, 1).attempt(attempt)
    records = EventReader(paths.events).poll()
    (found,) = [one.fields for one in records if one.kind == RecordKind.RESTORED]
    return found


def in_memory(state: Path, name: str) -> Path:
    """The memory tier of a run, as its first attempt was told."""
    path = StatePaths(state).run(name, 1).attempt(1).directive
    return Path(json.loads(path.read_text())["memory_directory"])


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    """One of the version before."""
    made = Installation.make(tmp_path / "venv")
    made.put_commit(BEFORE)
    return made


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What an undisturbed run of this version ends with."""
    directory = tmp_path_factory.mktemp("undisturbed")
    trainwarden = Trainwarden(directory, directory / "state")
    done = trainwarden("run", trainwarden.script(TRAINS), "plain")
    assert done.returncode == 0, done.stdout + done.stderr
    assert steps(directory, "plain") == list(range(1, STEPS + 1))
    return json.loads((directory / "plain.json").read_text())


@pytest.fixture
def box(tmp_path: Path, installation: Installation) -> Iterator[BoxUnderTest]:
    """A daemon's place, with that installation."""
    with box_in(tmp_path) as made:
        made.program = installation.program
        yield made


STARTS = """
import pathlib, sys, time
print("up", flush=True)
while not pathlib.Path("import").exists():
    time.sleep(0.01)
import keras, numpy as np
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.ones((8, 2)), np.ones((8, 1)), verbose=0)
"""
"""Its framework, and what supervises that, is imported when it is told to."""


def submit(box: BoxUnderTest, name: str, spec: str) -> None:
    """Hand a spec to the daemon."""
    script = box.script(TRAINS)
    path = box.directory / f"{name}.toml"
    path.write_text(spec.format(script=script, name=name))
    box.do("submit", "--spec", path)


@pytest.mark.slow
def test_jobs_of_a_daemon(
    box: BoxUnderTest, installation: Installation, expected: Any
) -> None:
    """Training goes on while the daemon is replaced, and is taken over: the same process,
    the same attempt. Killed then, it goes on in the new version from the snapshots of the
    old one, those in memory or those on disk, and ends with the bits of an undisturbed
    run. What had failed before is known, and counts. What had not begun to train and
    finds its own modules replaced is started again."""
    daemon = box.begin()
    names = ("memory", "disk")
    for name in names:
        go_on(box.directory, name, until_step=50)
        submit(box, name, SPEC)
    box.script(DIES, "dies.py")
    path = box.directory / "dies.toml"
    path.write_text(DYING.format(script=box.directory / "dies.py"))
    box.do("submit", "--spec", path)
    box.do("submit", box.script(STARTS, "starts.py"))
    dying = box.until(lambda job: job["attempt"] == 3 and job["pid"], "dies")
    until(lambda: b"up" in box.client.read("/v1/jobs/starts/logs")[0])
    before = {name: box.until(lambda job: job["step"] == 50, name) for name in names}
    assert len(box.json("incidents")) == 2
    box.end(daemon)
    for name in names:
        go_on(box.directory, name, until_step=60)
    until(lambda: all(steps(box.directory, name)[-1] == 60 for name in names))

    installation.put_checkout()
    for name in names:
        go_on(box.directory, name, until_step=77)
    box.begin()
    for name in names:
        after = box.until(lambda job: job["step"] == 77, name)
        assert (after["pid"], after["attempt"]) == (before[name]["pid"], 1)
        assert steps(box.directory, name) == list(range(1, 78))
    assert box.job("dies")["pid"] == dying["pid"]
    assert [one["job"] for one in box.json("incidents")] == ["dies", "dies"]

    os.kill(before["disk"]["pid"], signal.SIGSTOP)
    shutil.rmtree(in_memory(box.state, "disk"))
    for name in names:
        os.kill(before[name]["pid"], signal.SIGKILL)
        box.until(lambda job: job["attempt"] == 2, name)
        go_on(box.directory, name, until_step=None)
    (box.directory / "go").touch()
    (box.directory / "import").touch()
    for name, tier, since in (("memory", MEMORY, 75), ("disk", DURABLE, 60)):
        box.until(lambda job: job["state"] == "finished", name)
        found = restored(box.state, name, 2)
        assert (found["tier"], found["step"], found["quarantined"]) == (tier, since, [])
        (incident,) = box.json("incidents", name)
        assert (incident["cause"], incident["restored_step"]) == ("preempted", since)
        assert json.loads((box.directory / f"{name}.json").read_text()) == expected
        assert box.job(name)["promise"] is None
    # Ten kills before a step, beside the two of which the old version did not tell whose.
    assert box.until(lambda job: job["state"] == "gave_up", "dies")["attempt"] <= 12
    box.until(lambda job: job["state"] == "finished", "starts")
    (incident,) = box.json("incidents", "starts")
    assert (incident["cause"], incident["remedy"]["kind"]) == ("preempted", "restart")


def test_a_run_in_the_foreground(
    tmp_path: Path, installation: Installation, expected: Any
) -> None:
    """Its supervisor is of the version before and stays: what it starts after a crash is
    of this one, and goes on from the old snapshots. Drained, the same command ends it."""
    old = Trainwarden(tmp_path, tmp_path / "state", program=installation.program)
    path = tmp_path / "spec.toml"
    path.write_text(SPEC.format(script=old.script(TRAINS), name="run"))
    go_on(tmp_path, "run", until_step=50)
    running = old.start("run", "--spec", path)
    try:
        until(lambda: steps(tmp_path, "run")[49:])
        before = old.until(lambda job: job["snapshot"]["step"] == 50, job="run")
        installation.put_checkout()
        os.kill(before["pid"], signal.SIGKILL)
        go_on(tmp_path, "run", until_step=60)
        until(lambda: steps(tmp_path, "run")[59:])
        assert steps(tmp_path, "run") == list(range(1, 61))
        running.send_signal(signal.SIGTERM)
        go_on(tmp_path, "run", until_step=STEPS)
        said, _ = running.communicate(timeout=PATIENCE)
        assert running.returncode == 75, said
    finally:
        running.kill()
        running.communicate()
    done = old("run", "--spec", path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((tmp_path / "run.json").read_text()) == expected
    assert steps(tmp_path, "run") == list(range(1, STEPS + 1))
    (incident,) = old.json("incidents", "run")
    assert (incident["attempt"], incident["lost_steps"]) == (1, 0)
    installation.put_commit(BEFORE)
    refused = old("status")
    assert refused.returncode
    assert "was written by a newer version of trainwarden" in refused.stderr


@pytest.mark.slow
def test_files_that_go_under_a_script_that_has_not_begun(tmp_path: Path) -> None:
    """Modules that are imported late are those that were there at the start: an upgrade
    from this version costs not even a restart."""
    installation = Installation.make(tmp_path / "venv")
    installation.put_checkout()
    trainwarden = Trainwarden(
        tmp_path, tmp_path / "state", program=installation.program
    )
    running = trainwarden.start("run", trainwarden.script(STARTS))
    try:
        output = StatePaths(trainwarden.state).run("train", 1).attempt(1).output
        until(lambda: output.exists() and "up" in output.read_text())
        installation.remove()
        (tmp_path / "import").touch()
        said, _ = running.communicate(timeout=PATIENCE)
    finally:
        running.kill()
        running.communicate()
    assert running.returncode == 0, said
    assert "attempt 2" not in said


@pytest.mark.parametrize(
    ("former", "now", "asked"),
    [
        ("attempt_unit", "launch.unit_main", "request.json"),
        ("gpu_service", "gpu.probe_service", "nowhere/probe.sock"),
    ],
)
def test_former_names(tmp_path: Path, former: str, now: str, asked: str) -> None:
    """What unit files of the version before start is what those of this one start."""
    ends: list[tuple[int, str]] = []
    for module in (former, now):
        done = subprocess.run(
            [sys.executable, "-I", "-m", f"supervisor.host.{module}", asked],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        ends.append((done.returncode, done.stderr.splitlines()[-1]))
    assert ends[0] == ends[1]
    assert "No module" not in ends[0][1]
