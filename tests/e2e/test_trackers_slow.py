"""The real W&B, MLflow and TensorBoard: a restarted run goes on in the run it had."""

import contextlib
import json
import os
import re
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Trainwarden, marked
from tests.support.script_packages import SCRIPT_PACKAGES
from tests.support.wandb_server import WandbServer, wandb_server

TRACKERS = Path(sys.prefix) / "trackers"
"""Where ``make test-slow`` installs them."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not TRACKERS.is_dir(),
        reason="make test-slow installs W&B and MLflow; they are not here",
    ),
]

TRAINING = """
import os
import time

import keras
import numpy as np

keras.utils.set_random_seed(1)
x = np.random.default_rng(1).random((32, 8), "float32")
y = x.sum(1, keepdims=True)


def model_of():
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


class Logs(keras.callbacks.Callback):
    def __init__(self, log, dies_in=3):
        super().__init__()
        self.log, self.dies_in = log, dies_in

    def on_epoch_end(self, epoch, logs=None):
        self.log(epoch, logs["loss"])
        if epoch == self.dies_in and not os.path.exists("died"):
            open("died", "w").close()
            time.sleep(2)  # what was logged is on its way
            if "RAISES" in os.environ:
                raise RuntimeError("no reason")
            os.kill(os.getpid(), 9)


def train(log, dies_in=3):
    told = Logs(log, dies_in)
    model_of().fit(x, y, epochs=6, batch_size=8, verbose=0, callbacks=[told])
"""
WANDB = f"""{TRAINING}
import wandb

run = wandb.init(project="p", name=f"run of {{time.time()}}", config={{"rate": 1}})
run.config["begun"] = time.time()
train(lambda epoch, loss: run.log({{"loss": loss}}, step=epoch))
print("run", run.id)
"""
FOLDS = f"""{TRAINING}
import wandb

for fold in range(2):
    with wandb.init(project="p", reinit="finish_previous") as run:
        train(lambda epoch, loss: run.log({{"loss": loss}}), dies_in=3 if fold else 99)
        print("run", run.id)
"""
MLFLOW = f"""{TRAINING}
import mlflow

mlflow.set_tracking_uri(os.environ["STORE"])
with mlflow.start_run() as run:
    mlflow.log_param("begun", time.time())
    mlflow.log_params({{"rate": 1, "from": time.time()}})
    train(lambda epoch, loss: mlflow.log_metric("loss", loss, step=epoch))
"""
AUTOLOG = f"""{TRAINING}
import mlflow

mlflow.set_tracking_uri(os.environ["STORE"])
mlflow.tensorflow.autolog(log_models=False, log_datasets=False)
train(lambda epoch, loss: None)
"""
BOARD = f"""{TRAINING}
board = keras.callbacks.TensorBoard("board", write_graph=False)
model_of().fit(
    x, y, epochs=6, batch_size=8, verbose=0, callbacks=[board, Logs(lambda *_: None)]
)
"""
RUN = "run", "--no-output", "--snapshot-every", "3steps"


@pytest.fixture
def trainwarden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trainwarden:
    """The command; its scripts find the trackers."""
    monkeypatch.setenv("PYTHONPATH", f"{TRACKERS}{os.pathsep}{SCRIPT_PACKAGES}")
    monkeypatch.setenv("WANDB_MODE", "offline")
    for kind in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"WANDB_{kind}_DIR", os.fspath(tmp_path / "of-wandb"))
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("STORE", f"sqlite:///{tmp_path}/mlflow.db")
    return Trainwarden(tmp_path, tmp_path / "state")


@pytest.fixture
def server(
    trainwarden: Trainwarden, monkeypatch: pytest.MonkeyPatch
) -> Iterator[WandbServer]:
    """W&B's, or what stands for it."""
    assert trainwarden.directory.is_dir()
    with wandb_server() as served:
        for name, value in served.environment.items():
            monkeypatch.setenv(name, value)
        yield served


def ends_well(trainwarden: Trainwarden, text: str) -> str:
    """What is said of ``text``, which dies once."""
    done = trainwarden(*RUN, trainwarden.script(text))
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "finished in 2 attempts" in said
    assert marked(trainwarden.directory) == []  # no service of a tracker is left
    return said


def offline_runs(directory: Path) -> list[str]:
    """The ids of W&B's runs that lie there, one for each attempt."""
    found = sorted((directory / "wandb").glob("offline-run-*"))
    return [path.name.rsplit("-", 1)[1] for path in found]


def rows(database: Path, query: str) -> list[tuple[Any, ...]]:
    """What a query of MLflow's database gives."""
    with sqlite3.connect(database) as store:
        return store.execute(query).fetchall()


def shown_steps(board: Path, tag: str) -> list[int]:
    """What TensorBoard shows of a scalar."""
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", os.fspath(board)]
    with subprocess.Popen(
        [*command, "--port", "0"], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            lines = (re.search(r"http://\S+:\d+", line) for line in process.stderr)
            address = next(found.group() for found in lines if found is not None)
            return read_steps(
                f"{address}/data/plugin/scalars/scalars?run=train&tag={tag}"
            )
        finally:
            process.terminate()
            process.stderr.read()


def read_steps(address: str) -> list[int]:
    """The steps of a scalar, once they are loaded."""
    for _ in range(60):
        time.sleep(0.5)
        with contextlib.suppress(OSError), urllib.request.urlopen(address) as answer:  # noqa: S310  # ours
            return [step for _, step, _ in json.load(answer)]
    pytest.fail("TensorBoard has loaded nothing")


def test_wandb_offline_goes_on(
    trainwarden: Trainwarden, server: WandbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both attempts wrote for one run, and are one where they are uploaded: what was done
    again comes twice, and W&B counts on."""
    monkeypatch.setenv("RAISES", "1")
    said = ends_well(trainwarden, WANDB)
    first, second = offline_runs(trainwarden.directory)
    assert first == second
    assert f"Weights & Biases: run {first} goes on" in said
    assert "debug.log" not in said  # what is the tracker's own is no matter of ours
    subprocess.run(
        [sys.executable, "-m", "wandb", "sync", "--yes"],
        cwd=trainwarden.directory,
        env={**os.environ, "WANDB_MODE": "online"},
        check=True,
        capture_output=True,
        timeout=120,
    )
    history = server.runs[first].history
    assert [one["_step"] for one in history] == list(range(7))
    losses = [one["loss"] for one in history]
    assert losses[3] == losses[4]
    assert losses == sorted(losses, reverse=True)


def test_a_killed_run_of_wandb_offline_has_one_id(trainwarden: Trainwarden) -> None:
    """With the attempt, W&B's own process dies, and what it had not written is lost. No
    proof has its steps logged there."""
    said = ends_well(trainwarden, WANDB)
    first, second = offline_runs(trainwarden.directory)
    assert first == second
    assert f"not proved: Weights & Biases: run {first} goes on" in said


def test_wandb_online_goes_on(
    trainwarden: Trainwarden, server: WandbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One run on the server, each step of it once; a configuration with a time in it may
    be set again."""
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setenv("WANDB_X_FILE_STREAM_TRANSMIT_INTERVAL", "1")
    ends_well(trainwarden, WANDB)
    ((name, run),) = server.runs.items()
    assert [one["_step"] for one in run.history] == list(range(6))
    assert json.loads(run.config)["begun"]["value"] > 0
    monkeypatch.setenv("WANDB_RUN_ID", "mine")
    done = trainwarden(*RUN, trainwarden.directory / "train.py")
    assert done.returncode == 0, done.stderr
    assert set(server.runs) == {name, "mine"}


def test_folds_keep_runs_of_their_own(trainwarden: Trainwarden) -> None:
    """The second of two died: both go on; afresh, there are others."""
    ends_well(trainwarden, FOLDS)
    ids = offline_runs(trainwarden.directory)
    assert ids[:2] == ids[2:]
    assert len(set(ids)) == 2
    done = trainwarden(*RUN, "--fresh", trainwarden.directory / "train.py")
    assert done.returncode == 0, done.stderr
    assert len(set(offline_runs(trainwarden.directory))) == 4


def test_wandb_disabled_stays_so(
    trainwarden: Trainwarden, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is kept of a run that is none."""
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert "goes on" not in ends_well(trainwarden, WANDB)
    assert not (trainwarden.directory / "wandb").exists()


@pytest.mark.parametrize("text", [MLFLOW, AUTOLOG], ids=["own", "autolog"])
def test_mlflow_goes_on(trainwarden: Trainwarden, text: str) -> None:
    """One run, finished, with every step; a parameter that is a time keeps its first
    value. Steps that were done again are there twice, with the same value."""
    said = ends_well(trainwarden, text)
    database = trainwarden.directory / "mlflow.db"
    ((name, status),) = rows(database, "select run_uuid, status from runs")
    assert status == "FINISHED"
    assert f"MLflow: run {name} goes on" in said
    values = rows(
        database, "select distinct step, value from metrics where key = 'loss'"
    )
    assert sorted(step for step, _ in values) == list(range(6))


def test_files_of_mlflow_go_on(
    trainwarden: Trainwarden, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its older store, of many small files, is no matter of ours: no piece that was cut
    off lies among the metrics."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    store = trainwarden.directory / "mlruns"
    monkeypatch.setenv("STORE", f"file://{store}")
    ends_well(trainwarden, MLFLOW)
    (metrics,) = store.glob("*/*/metrics")
    assert [path.name for path in metrics.iterdir()] == ["loss"]
    lines = (metrics / "loss").read_text().splitlines()
    assert {int(line.split()[2]) for line in lines} == set(range(6))


def test_a_run_that_is_gone_is_begun_anew(trainwarden: Trainwarden) -> None:
    """Somebody deleted it between the attempts: the script has another, and is told."""
    gone = "mlflow.delete_run(run.info.run_id)"
    said = ends_well(trainwarden, MLFLOW.replace("time.sleep(2)", gone))
    assert "does not go on (MlflowException); the script begins another" in said


def test_tensorboard_shows_each_step_once(trainwarden: Trainwarden) -> None:
    """A new event file beside the one of the killed attempt: of what both have, the
    later is shown (by its data server, which TensorBoard takes by itself)."""
    ends_well(trainwarden, BOARD)
    board = trainwarden.directory / "board"
    assert len(list((board / "train").glob("events*"))) == 2
    assert shown_steps(board, "epoch_loss") == list(range(6))
