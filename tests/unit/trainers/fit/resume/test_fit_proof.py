"""An attempt that resumes shows that it continued to the bit, or that it did not."""

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from supervisor.wire.event_file import RecordKind
from supervisor.wire.snapshots.proof import Proof
from tests.support.attempts import AttemptOutcome, Attempts
from tests.support.zygote import Zygote

SCRIPT = """
import os, random, signal
import keras
import numpy as np
from trainers.process import attempt_reporting as reporting

HIDDEN = os.environ.get("HIDDEN", "")
UNTIL = int(os.environ.get("DIE", 0))
STOP = int(os.environ.get("STOP", 0))


class Misfortune(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.count = 0

    def on_train_batch_end(self, batch, logs=None):
        self.count += 1
        if "APPENDS" in os.environ:
            with open(os.environ["APPENDS"], "a") as file:
                file.write("a step\\n")
        calls = os.calls = getattr(os, "calls", 0) + 1  # this, no snapshot has
        if HIDDEN == "rate":
            self.model.optimizer.learning_rate.assign(0.01 / (1 + calls))
        if HIDDEN == "draws":
            drawn = random.random() + float(keras.random.uniform([]))
            self.model.optimizer.learning_rate.assign(0.01 / (1 + drawn))
        if HIDDEN == "stop" and calls == STOP:
            self.model.stop_training = True
        if self.count == UNTIL:
            reporting.current().wait_for_saver()
            os.kill(os.getpid(), getattr(signal, os.environ.get("BY", "SIGKILL")))


keras.utils.set_random_seed(5)
x = np.random.default_rng(1).normal(size=(80, 6)).astype("float32")
y = x.sum(1, keepdims=True)
model = keras.Sequential([
    keras.layers.Dense(8, "relu"), keras.layers.BatchNormalization(),
    keras.layers.Dropout(0.3), keras.layers.GaussianNoise(0.1), keras.layers.Dense(1),
])
model.compile(keras.optimizers.Adam(0.01, use_ema=True), "mse", metrics=["mae"])
history = model.fit(
    x, y, batch_size=8, epochs=5, verbose=0, validation_data=(x, y),
    callbacks=[
        keras.callbacks.EarlyStopping(patience=30, restore_best_weights=True),
        keras.callbacks.ReduceLROnPlateau(patience=1), Misfortune(),
    ],
)
np.savez("result.npz", *[np.asarray(one) for one in model.variables],
    **{name: np.asarray(one) for name, one in history.history.items()})
"""


@pytest.fixture
def attempts(tmp_path: Path, tmpfs: Path, zygote: Zygote) -> Attempts:
    """A run of 50 steps in 5 epochs, with a snapshot in memory every four."""
    options = {
        "memory_directory": str(tmpfs / "memory"),
        "memory_every_steps": 4,
        "snapshot_every_steps": 1000,
    }
    return Attempts(tmp_path, options, zygote=zygote)


def run(
    attempts: Attempts, *, prove: bool = False, **environment: str
) -> AttemptOutcome:
    """An attempt."""
    script = attempts.script(SCRIPT)
    return attempts.run(script, environment=environment, prove=prove)


LEFT_OUT = {"seconds", "tensors", "ends"}


def proofs(outcome: AttemptOutcome) -> list[dict[str, Any]]:
    """What an attempt said of its proof, but for the figures."""
    return [
        {name: value for name, value in one.items() if name not in LEFT_OUT}
        for one in outcome.of(RecordKind.PROOF)
    ]


def result(attempts: Attempts) -> dict[str, bytes]:
    """What the script left."""
    with np.load(attempts.directory / "result.npz") as found:
        return {name: found[name].tobytes() for name in found}


@pytest.mark.parametrize(
    "die",
    [26, pytest.param(43, marks=pytest.mark.slow)],
    ids=["across an epoch's end", "within one"],
)
def test_an_exact_resume_is_proved(
    attempts: Attempts, tmp_path: Path, die: int
) -> None:
    """With a validation, callbacks and random layers on the way; and it ends as if it
    had never been killed."""
    whole = Attempts(tmp_path / "whole", zygote=attempts.zygote)
    assert run(whole).code == 0
    assert run(attempts, DIE=str(die)).code == -signal.SIGKILL
    resumed = run(attempts, prove=True)
    assert resumed.code == 0, resumed.err
    newest = (die - 1) // 4 * 4
    assert proofs(resumed) == [
        {"result": Proof.BEGUN, "because": "", "from_step": newest - 4, "step": newest},
        {
            "result": Proof.PROVED,
            "because": "",
            "from_step": newest - 4,
            "step": newest,
            "steps": 4,
        },
    ]
    assert resumed.of(RecordKind.PROOF)[-1]["tensors"] > 40
    assert [one["step"] for one in resumed.of(RecordKind.RESTORED)] == [newest]
    assert result(attempts) == result(whole)


@pytest.mark.slow
def test_generators_that_are_made_as_the_state_is_given_back_draw_nothing(
    attempts: Attempts,
) -> None:
    """Keras' global generator takes its seed from Python's, which stands where it stood
    all the same."""
    assert run(attempts, DIE="26", HIDDEN="draws").code == -signal.SIGKILL
    resumed = run(attempts, prove=True, HIDDEN="draws")
    assert resumed.code == 0, proofs(resumed)
    assert proofs(resumed)[-1]["result"] == Proof.PROVED


@pytest.mark.slow
def test_no_step_is_done_again_where_a_file_would_have_it_twice(
    attempts: Attempts,
) -> None:
    """What the script appends to outside of what is put back has each step of a drained
    run once; within, a proof goes ahead."""
    results = {}
    for name, zygote in (("inside", attempts.zygote), ("outside", None)):
        root = attempts.directory / name
        (root / "temporary").mkdir(parents=True)
        options = {
            **attempts.options,
            "rewind": (str(root),),
            "memory_directory": f"{attempts.options['memory_directory']}-{name}",
        }
        # Without a zygote: its children know where temporary files are already.
        one = Attempts(root, options, zygote=zygote)
        steps = (root if zygote else attempts.directory) / f"{name}.steps"
        more = {"TMPDIR": str(root / "temporary"), "APPENDS": str(steps)}
        script, fate = one.script(SCRIPT), {"DIE": "26", "BY": "SIGTERM"}
        drained = one.run(script, environment=more | fate)
        assert drained.code == 75, drained.err
        resumed = one.run(script, environment=more, prove=True)
        assert resumed.code == 0, resumed.err
        assert len(steps.read_text().splitlines()) == 50
        results[name] = resumed.of(RecordKind.PROOF)[-1]
    assert results["inside"]["result"] == Proof.PROVED
    assert results["outside"]["result"] == Proof.SKIPPED
    assert "outside.steps" in results["outside"]["because"]


def in_memory(attempts: Attempts) -> list[int]:
    """Steps of the snapshots there."""
    found = Path(attempts.options["memory_directory"]).glob("*-*[0-9]")
    return sorted(int(one.name.partition("-")[0]) for one in found)


def on_disk(attempts: Attempts) -> list[int]:
    """Steps of the durable snapshots."""
    return sorted(int(p.name[:12]) for p in attempts.snapshots.glob("0*-*[0-9]"))


def unpromised(outcome: AttemptOutcome) -> list[str]:
    """Why no bits were promised."""
    return [r["sentence"] for r in outcome.of(RecordKind.PROMISE) if not r["bits"]]


def test_a_resume_that_differs_withdraws_the_promise_and_leaves_the_newer_snapshot(
    attempts: Attempts,
) -> None:
    """A counter that no snapshot holds decides the learning rate: the attempt ends by
    itself, and the next goes on from the newer snapshot."""
    assert run(attempts, DIE="26", HIDDEN="rate").code == -signal.SIGKILL
    resumed = run(attempts, prove=True, HIDDEN="rate")
    assert resumed.code == 75, resumed.err
    begun, differs = proofs(resumed)
    assert (begun["result"], differs["result"]) == (Proof.BEGUN, Proof.DIFFERS)
    (sentence,) = unpromised(resumed)
    assert "of 34 variables" in sentence
    assert "globals, closures" in sentence
    assert resumed.of(RecordKind.DRAINED)[0]["step"] == 24
    assert (in_memory(attempts), on_disk(attempts)) == ([20, 24], [24])
    last = run(attempts, HIDDEN="rate")
    assert last.code == 0
    assert [one["step"] for one in last.of(RecordKind.RESTORED)] == [24]


@pytest.mark.slow
def test_a_replay_that_ends_too_soon_is_no_end_of_the_fit(attempts: Attempts) -> None:
    """Hidden state stops the training before the newer snapshot is met: that one counts
    all the same."""
    hidden = {"HIDDEN": "stop", "STOP": "3"}
    assert run(attempts, DIE="26").code == -signal.SIGKILL
    resumed = run(attempts, prove=True, **hidden)
    assert resumed.code == 75, resumed.err
    assert proofs(resumed)[-1]["result"] == Proof.DIFFERS
    assert "decide when the training ends" in unpromised(resumed)[0]
    assert in_memory(attempts) == [20, 24]


@pytest.mark.slow
@pytest.mark.parametrize("by", ["SIGKILL", "SIGTERM"])
def test_the_newer_snapshot_outlives_an_end_in_the_middle_of_a_proof(
    attempts: Attempts, by: str
) -> None:
    """A kill leaves it where it was, a drain puts it on disk."""
    assert run(attempts, DIE="26").code == -signal.SIGKILL
    broken = run(attempts, prove=True, DIE="22", BY=by)
    assert broken.code == {"SIGKILL": -signal.SIGKILL, "SIGTERM": 75}[by]
    assert [one["result"] for one in proofs(broken)] == [Proof.BEGUN]
    assert in_memory(attempts) == [20, 24]
    assert on_disk(attempts) == {"SIGKILL": [], "SIGTERM": [24]}[by]
    proved = run(attempts, prove=True)
    assert proofs(proved)[-1]["result"] == Proof.PROVED


@pytest.mark.slow
def test_a_resume_with_one_snapshot_alone_is_told_to_be_unproved(
    attempts: Attempts,
) -> None:
    """And one with another computation: nothing can be compared."""
    assert run(attempts, DIE="6").code == -signal.SIGKILL
    assert run(attempts, prove=True, DIE="10").code == -signal.SIGKILL
    script = attempts.script(SCRIPT)
    changed = attempts.run(script, prove=True, deterministic=True)
    assert changed.code == 0, changed.err
    (other,) = changed.of(RecordKind.PROOF)
    assert other["result"] == Proof.SKIPPED
    assert "in force" in other["because"]
