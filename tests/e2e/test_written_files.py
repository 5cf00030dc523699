"""Files that the script itself writes, in a run that is killed at random places."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import PATIENCE, Trainwarden

SCRIPT = """
import csv, json, logging, os, pathlib, signal, sys
import keras, numpy as np

keras.utils.set_random_seed(3)
os.makedirs("out", exist_ok=True)
logging.basicConfig(
    filename="out/train.log", level=logging.INFO, format="%(levelname)s %(message)s")
logging.info("training begins")
fresh = open("out/fresh.log", "w")
fresh.write("training begins\\n")
if not pathlib.Path("out/rows.csv").exists():
    with open("out/rows.csv", "w", newline="") as file:
        csv.DictWriter(file, ["epoch", "loss"]).writeheader()
x = np.random.default_rng(0).normal(size=(96, 4)).astype("float32")
y = x.sum(axis=1)
attempt = os.environ.get("TRAINWARDEN_ATTEMPT", "/0").rpartition("/")[2]
die_at = json.loads(os.environ["DIE_AT"]).get(attempt)


class Files(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.losses, self.steps = [], 0

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
        fresh.write(f"{batch} {logs['loss']}\\n")
        self.die()

    def on_epoch_end(self, epoch, logs=None):
        self.losses.append(logs["loss"])
        with open("out/rows.csv", "a", newline="") as file:
            csv.DictWriter(file, ["epoch", "loss"]).writerow(
                {"epoch": epoch, "loss": logs["loss"]})
        self.die()
        logging.info("epoch %d: %r", epoch, logs["loss"])
        with open("out/results.json.new", "w") as file:
            json.dump({"losses": self.losses}, file)
        os.replace("out/results.json.new", "out/results.json")
        pathlib.Path("out/last.json").write_text(json.dumps(logs["loss"]))

    def die(self):
        if self.steps == die_at:
            os.kill(os.getpid(), signal.SIGKILL)


model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, y, batch_size=8, epochs=5, verbose=0, callbacks=[
    keras.callbacks.CSVLogger("out/logger.csv"),
    keras.callbacks.CSVLogger("out/appended.csv", append=True),
    keras.callbacks.ModelCheckpoint("out/best.keras", monitor="loss", save_best_only=True),
    Files(),
])
best = keras.models.load_model("out/best.keras")
with open("out/weights.txt", "a") as file:
    file.write("".join(f"{w.tobytes().hex()}\\n" for w in model.get_weights()))
    file.write("".join(f"{w.tobytes().hex()}\\n" for w in best.get_weights()))
logging.info("training is over")
fresh.close()
"""
KILLS, STEPS = 3, 60


def contents(directory: Path) -> dict[str, bytes]:
    """What the script's files hold; an archive of Keras holds the time."""
    return {
        path.name: path.read_bytes()
        for path in sorted((directory / "out").iterdir())
        if path.suffix != ".keras" and ".cut-attempt-" not in path.name
    }


@pytest.mark.slow
def test_files_end_as_in_a_run_that_was_never_killed(
    trainwarden: Trainwarden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Byte for byte: appended ones, rewritten ones, those that begin anew."""
    whole = tmp_path / "whole"
    whole.mkdir()
    monkeypatch.setenv("DIE_AT", "{}")
    path = trainwarden.script(SCRIPT)
    subprocess.run([sys.executable, path], cwd=whole, check=True, timeout=PATIENCE)
    draw = random.Random(1)  # noqa: S311  # drawn to be drawn again
    places = sorted(draw.sample(range(1, STEPS + 1), KILLS))
    die_at = ", ".join(f'"{n}": {place}' for n, place in enumerate(places, start=1))
    monkeypatch.setenv("DIE_AT", f"{{{die_at}}}")
    done = trainwarden("run", "--snapshot-every", "3steps", path)
    assert done.returncode == 0, done.stderr[-3000:]
    (told,) = trainwarden.json("status")
    assert sum(told["restarts"].values()) == KILLS, done.stderr[-3000:]
    assert contents(tmp_path) == contents(whole)
    assert "left as it is" not in done.stderr, done.stderr
    assert "put back to where the run goes on from" in done.stderr
