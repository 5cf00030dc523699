"""A state disk that fills up under a run, and gets room again: told once each."""

from pathlib import Path

import pytest

from tests.support.boxes import box_in, until
from tests.support.command import PATIENCE, Trainwarden
from tests.support.small_disk import fill, mounted
from tests.support.webhooks import webhook

SCRIPT = """
import os, time
import keras, numpy as np

keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(640, 8)).astype("float32")
model = keras.Sequential([keras.layers.Dense(16), keras.layers.Dense(1)])
model.compile("adam", "mse")

class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if os.path.exists("loud"):
            print("batch", batch, flush=True)
        time.sleep(0.02 * os.path.exists("wait"))

    def on_epoch_begin(self, epoch, logs=None):
        while epoch == 29 and os.path.exists("wait"):
            time.sleep(0.1)

model.fit(x, x.sum(axis=1), batch_size=32, epochs=30, callbacks=[Slow()], verbose=0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("loud", [True, False], ids=["cannot_even_print", "trains_on"])
def test_a_full_state_disk(loud: bool, trainwarden: Trainwarden) -> None:  # noqa: FBT001  # a parameter
    """What, where and how much is free; then that it is over, and that the run has
    finished. A script that cannot print ends for it, and goes on once there is room."""
    wait, path = trainwarden.directory / "wait", trainwarden.directory / "job.toml"
    wait.touch()
    if loud:
        (trainwarden.directory / "loud").touch()
    with webhook() as hook, mounted(trainwarden.state, "128m") as state:
        path.write_text(
            f'script = "{trainwarden.script(SCRIPT)}"\nname = "train"\n'
            f'[notify]\naddresses = "{hook.file(trainwarden.directory)}"\n'
            '[snapshots]\nevery = "10steps"\nmemory = "off"\n'
        )
        running = trainwarden.start("run", "--spec", path)
        trainwarden.until(lambda s: (s["step"] or 0) > 20)
        fill(state / "hog")
        until(lambda: hook.came)
        (first,) = hook.came
        assert f"train: the disk of {state}" in first["title"]
        assert "cannot be written on " in first["title"]
        assert "train: snapshots are not saved" in first["message"]
        assert "No space left on device" in first["message"]
        assert "0 bytes of 128 MiB are free there" in first["message"]
        assert "Make room there" in first["message"]
        (state / "hog").unlink()
        wait.unlink()
        out, _ = running.communicate(timeout=PATIENCE)
        assert running.returncode == 0, out
        attempts = [one["attempt"] for one in trainwarden.json("incidents")]
    assert (len(hook.came), max(attempts)) == (3, 1), hook.titles
    over = next(one for one in hook.came if "can be written again" in one["title"])
    assert "of 128 MiB are free there" in over["message"]
    assert any(title.startswith("train finished") for title in hook.titles)


@pytest.mark.slow
def test_a_full_disk_of_a_daemon(tmp_path: Path) -> None:
    """Its own ledger has no room: told once, and once when the reserve is there again."""
    with webhook() as hook, mounted(tmp_path / "state", "128m") as state:
        state.chmod(0o700)
        with box_in(tmp_path) as box:
            box.config = f'[notify]\naddresses = "{hook.file(tmp_path)}"\n'
            box.begin()
            until((state / "ballast").exists)
            fill(state / "hog")
            script = box.script("print('done')")
            for number in range(40):
                box.command("submit", "--name", f"job-{number}", script)
                if not (state / "ballast").exists():
                    break
            until(lambda: [one for one in hook.came if "cannot be" in one["title"]])
            (state / "hog").unlink()
            until((state / "ballast").exists)
            until(lambda: [one for one in hook.came if "again" in one["title"]])
        titles = [title for title in hook.titles if "the disk of" in title]
        assert len(titles) == 2
