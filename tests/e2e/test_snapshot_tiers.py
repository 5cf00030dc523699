"""Both tiers on a real run: killed, resumed from memory, cleaned up, exported."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from supervisor.wire.event_file import EventReader, RecordKind
from supervisor.wire.paths import StatePaths
from supervisor.wire.snapshots.manifest import DURABLE, MEMORY, TENSORS
from tests.support.attempts import read_result
from tests.support.command import PATIENCE, Trainwarden
from tests.support.zygote import Zygote

SCRIPT = """
import json, pathlib, time
import keras, numpy as np

keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(640, 8)).astype("float32")
y = (x.sum(axis=1) > 0).astype("float32")
model = keras.Sequential([keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))

class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if pathlib.Path("slow").exists():
            time.sleep(0.05)

model.fit(x, y, batch_size=32, epochs=8, callbacks=[Slow()], verbose=0)
values = [v.numpy().tolist() for v in [*model.variables, *model.optimizer.variables]]
json.dump(values, open("end.json", "w"))
"""

LOAD = """
import json, keras, sys
model = keras.models.load_model(sys.argv[1])
values = [v.numpy().tolist() for v in [*model.variables, *model.optimizer.variables]]
json.dump(values, open(sys.argv[2], "w"))
"""


def records(trainwarden: Trainwarden, attempt: int) -> list[tuple[str, dict[str, Any]]]:
    """What an attempt of the run said."""
    paths = StatePaths(trainwarden.state).run("train", 1).attempt(attempt)
    return [(record.kind, record.fields) for record in EventReader(paths.events).poll()]


def tiers(rows: list[dict[str, Any]]) -> set[str]:
    """Which tiers hold a snapshot."""
    return {row["tier"] for row in rows}


def enough_saved(status: dict[str, Any]) -> bool:
    """Something newer than the first snapshot is in memory."""
    return status["snapshot"] is not None and status["snapshot"]["step"] > 30


def test_killed_run_goes_on_from_memory_and_leaves_nothing_there(
    trainwarden: Trainwarden, zygote: Zygote
) -> None:
    """SIGKILL: the next attempt restores from /dev/shm a step that no disk has, and ends
    with the bits that plain Python ends with; the memory is given back, and the last
    snapshot on disk is, for ordinary Keras, the trained model with its optimizer. A
    flipped bit on disk is found by `verify`."""
    script = trainwarden.script(SCRIPT)
    end_file = trainwarden.directory / "end.json"
    zygote.run_plain(script)
    expected = json.loads(end_file.read_text())
    end_file.unlink()
    slow = trainwarden.directory / "slow"
    slow.touch()
    running = trainwarden.start("run", "--snapshot-every", "1h", script)
    status = trainwarden.until(enough_saved)
    plan = status["snapshot_plan"]
    assert plan["durable_seconds"] == 3600
    assert 0 < plan["memory_seconds"] < 120
    assert "budget" in plan["because"]
    rows = trainwarden.json("snapshots", "train")
    assert tiers(rows) == {MEMORY}
    memory = Path(rows[0]["path"]).parent
    os.kill(status["pid"], signal.SIGKILL)
    slow.unlink()
    out, _ = running.communicate(timeout=PATIENCE)
    assert running.returncode == 0, out
    (restored,) = [
        f for kind, f in records(trainwarden, 2) if kind == RecordKind.RESTORED
    ]
    assert restored["tier"] == MEMORY
    assert restored["step"] > 30
    assert not memory.exists()
    assert json.loads(end_file.read_text()) == expected

    (end,) = trainwarden.json("snapshots", "train")
    assert (end["tier"], end["step"], end["fit_done"]) == (DURABLE, 160, True)
    target = trainwarden.directory / "out.keras"
    done = trainwarden("snapshots", "export", "train", "160", str(target))
    assert done.returncode == 0, done.stderr
    zygote.run_plain(trainwarden.script(LOAD, "load.py"), str(target), "loaded.json")
    assert read_result(trainwarden.directory / "loaded.json") == expected

    assert trainwarden("snapshots", "verify", "train").returncode == 0
    content = bytearray((Path(end["path"]) / TENSORS).read_bytes())
    content[-9] ^= 1
    (Path(end["path"]) / TENSORS).write_bytes(content)
    verified = trainwarden("snapshots", "verify", "train")
    assert verified.returncode == 1
    assert "recorded hash" in verified.stdout
    there = trainwarden("snapshots", "export", "train", "160", str(target))
    assert (there.returncode, "is there already" in there.stderr) == (2, True)
    target.unlink()
    damaged = trainwarden("snapshots", "export", "train", "160", str(target))
    assert damaged.returncode == 1
    assert "is damaged" in damaged.stderr
    assert "Traceback" not in damaged.stderr


WRONG_WORDS = {
    "export train 5 out.keras": "no snapshot of step 5",
    "export train": "say `snapshots JOB`",
    "nothing": "no job 'nothing'",
    "export train 5 out.txt": "should end in .keras",
    "": "say `snapshots JOB`",
}


@pytest.mark.parametrize(
    "lines",
    [
        [*WRONG_WORDS][:2],
        pytest.param([*WRONG_WORDS][2:], marks=pytest.mark.slow),
    ],
    ids=["export", "others"],
)
def test_wrong_words_end_in_a_sentence(
    trainwarden: Trainwarden, lines: list[str]
) -> None:
    """An unknown job, step, ending or verb: 2, and what to do instead."""
    script = trainwarden.script("print('no training')")
    assert trainwarden("run", script).returncode == 0
    for line in lines:
        done = trainwarden("snapshots", *line.split())
        assert done.returncode == 2
        assert WRONG_WORDS[line] in done.stderr
    said = trainwarden("snapshots", "train").stdout
    assert said.startswith("no snapshots\nin memory: ")
    assert f"on disk: {trainwarden.state}" in said
    assert trainwarden.json("snapshots", "train") == []
    assert trainwarden("snapshots", "verify", "train").stdout == "no snapshots\n"
