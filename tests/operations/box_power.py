"""The power of a box with systemd goes off in order, and comes back."""

import json
from pathlib import Path
from typing import Any

from tests.support.machine import OPT, BootedContainer, boot
from tests.support.machine_jobs import job, steps, submit

PYTHON = f"{OPT}/bin/python"
STEPS = 12 * 25
TRAINS = """
import hashlib, pathlib, sys, time
import keras, numpy as np

out = sys.argv[1]

class Slowly(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        with open(out + ".steps", "a") as file:
            file.write(f"{batch}\\n")
        if pathlib.Path(out + ".slow").exists():
            time.sleep(0.05 if int(self.model.optimizer.iterations) < 60 else 1.0)

keras.utils.set_random_seed(7)
rng = np.random.default_rng(7)
x, y = rng.normal(size=(400, 8)).astype("float32"), rng.integers(0, 3, 400)
model = keras.Sequential([
    keras.layers.Dense(16, activation="relu"), keras.layers.BatchNormalization(),
    keras.layers.Dropout(0.3), keras.layers.Dense(3, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
fitted = model.fit(x, y, batch_size=16, epochs=12, verbose=0, callbacks=[Slowly()])
state = [*model.get_weights(), *(np.asarray(v) for v in model.optimizer.variables)]
digests = [hashlib.sha256(part.tobytes()).hexdigest() for part in state]
pathlib.Path(out + ".end").write_text(repr((digests, fitted.history)))
"""
"""Writes every step down, slowly as long as there is OUT.slow, and at the end what
weights and optimizer are to the last bit, and the History."""


def check_a_shutdown_drains_and_the_next_boot_resumes(box: BootedContainer) -> None:
    """Nobody has to do anything: jobs go on where they were, and end; a training of
    Keras with the bits that it has where nothing ever happened."""
    script = box.shared / "bits.py"
    script.write_text(TRAINS)
    place = box.root / "home/alice"
    (place / "bits.slow").touch()
    box.trainwarden("submit", "/shared/bits.py", "/home/alice/bits", user="alice")
    undisturbed = box.begin(
        PYTHON, "/shared/bits.py", "/home/alice/plain", user="alice"
    )
    assert undisturbed.wait(90) == 0
    box.until(lambda: len(_steps(box, "bits")) > STEPS // 10)
    submit(box, "night", steps=400)
    box.until(lambda: _steps(box, "night"))  # before that, nobody listens to SIGTERM
    box.power_off()
    for name in ("night", "bits"):
        record = _exit_record(box, name)
        assert (record["exit_code"], record["asked_to_stop"]) == (75, True), record
    done = len(_steps(box, "bits"))
    assert STEPS // 10 < done < STEPS
    (place / "bits.slow").unlink()
    again = boot(box.root, box.shared, *box.options)
    box.process, box.leader = again.process, again.leader
    for name in ("night", "bits"):
        _finishes_in_its_second_attempt(box, name)
    assert steps(box, "night") == list(range(400))
    assert _steps(box, "plain") == list(range(25)) * 12
    assert _steps(box, "bits") == _steps(box, "plain"), _events(box, "bits")
    assert (place / "bits.end").read_text() == (place / "plain.end").read_text()


def _finishes_in_its_second_attempt(box: BootedContainer, name: str) -> None:
    box.until(lambda: job(box, name).get("state") == "finished")
    assert job(box, name)["attempt"] == 2
    assert box.trainwarden("incidents", name).stdout == "no incidents\n"


def _steps(box: BootedContainer, name: str) -> list[int]:
    """Which steps were done, in order; read from outside, where it is quicker, and the
    machine may be off."""
    path = box.root / f"home/alice/{name}.steps"
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def _attempts(box: BootedContainer, name: str) -> Path:
    """Where those of a job of alice's have their files."""
    return box.root / f"var/lib/trainwarden/users/alice/jobs/{name}/run-1/attempts"


def _exit_record(box: BootedContainer, name: str) -> dict[str, Any]:
    """How the first attempt of a job ended."""
    path = _attempts(box, name) / "0001/exit.json"
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def _events(box: BootedContainer, name: str) -> str:
    """What its attempts have told, and the steps that were done."""
    files = sorted(_attempts(box, name).glob("*/events.jsonl"))
    return "\n".join([*(path.read_text() for path in files), str(_steps(box, name))])
