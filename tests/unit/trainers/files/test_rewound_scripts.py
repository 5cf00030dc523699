"""Files that a script writes end as in a run that was never killed, byte for byte."""

import shutil
import signal
from pathlib import Path

import pytest

from supervisor.wire.event_file import RecordKind
from tests.support.attempts import AttemptOutcome, Attempts
from tests.support.samples import sampled
from tests.support.zygote import Zygote

COMMON = """
import csv, io, json, logging, os, pathlib, re, shutil, signal, time
import numpy as np
import keras

def place(name):
    if os.environ.get("DIE") == name:
        while "WAIT" in os.environ and not any(
            re.fullmatch(r"\\d+-\\d+", found) for found in os.listdir("snapshots")
        ):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)

x = np.random.default_rng(0).normal(size=(32, 3)).astype("float32")
y = (x.sum(1) > 0).astype("float32")

def make():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, "relu"),
        keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model

class Rows(keras.callbacks.Callback):
    def __init__(self, fit, write):
        super().__init__()
        self.fit, self.write = fit, write
    def on_train_batch_end(self, batch, logs=None):
        place(f"step:{self.fit}:{self.params['epochs']}:{batch}")
    def on_epoch_end(self, epoch, logs=None):
        self.write(epoch, logs["loss"])
        place(f"epoch:{self.fit}:{epoch}")

def train(model, fit, write, epochs=4, callbacks=()):
    return model.fit(x, y, batch_size=8, epochs=epochs, verbose=0,
        callbacks=[*callbacks, Rows(fit, write)])
os.makedirs("out", exist_ok=True)
"""

KEPT_OPEN = (
    COMMON
    + """
log = open("out/log.txt", "a")
log.write("begun\\n")
fresh = open("out/fresh.txt", "w", encoding="utf-8")
fresh.write("begun \u00e4\\n")
raw = os.open("out/raw.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(raw, b"begun\\n")
table = open("out/table.txt", "ab")
logger = logging.getLogger("own")
logger.addHandler(logging.FileHandler("out/handler.log"))
logger.setLevel("INFO")
logger.info("begun")

def write(epoch, loss):
    log.write(f"{epoch} {loss}\\n")  # in Python's buffer, for a long while
    fresh.write(f"{epoch} \u00e4 {loss}\\n")
    os.write(raw, f"{epoch} {loss}\\n".encode())
    np.savetxt(table, np.array([[epoch, loss]]))
    logger.info("epoch %d: %r", epoch, loss)

train(make(), 0, write)
for file in (log, fresh, table):
    file.write(b"done" if "b" in file.mode else "done")
    file.close()
"""
)

OPENED_EACH_TIME = (
    COMMON
    + """
if not os.path.exists("out/rows.csv"):
    with open("out/rows.csv", "w", newline="") as file:
        csv.writer(file).writerow(["epoch", "loss"])
with io.open("out/header.txt", "a") as file:
    file.write("begun\\n")
pathlib.Path("out/status.json").write_text("none")
with open("out/older.txt", "a") as file:
    file.write("begun\\n")

def write(epoch, loss):
    with open("out/rows.csv", "a", newline="") as file:
        csv.writer(file).writerow([epoch, loss])
    with pathlib.Path("out/header.txt").open("a") as file:
        file.write(f"{epoch} {loss}\\n")
    if epoch < 2:
        pathlib.Path("out/status.json").write_text(json.dumps([epoch, loss]))
    with open("out/older.txt", "a") as file:
        file.write(f"{epoch} {loss}\\n")
    with open("out/replaced.new", "w") as file:
        file.write(f"{epoch} {loss}\\n")
    os.replace("out/replaced.new", "out/replaced.txt")
    if epoch == 3:
        with open("out/late.txt", "a") as file:
            file.write(f"{epoch} {loss}\\n")

rows = keras.callbacks.CSVLogger("out/logger.csv", append=True)
anew = keras.callbacks.CSVLogger("out/anew.csv")
train(make(), 0, write, callbacks=[rows, anew])
"""
)

FOLDS = (
    COMMON
    + """
def done():
    try:
        return [int(line.split()[0]) for line in open("out/results.txt")]
    except FileNotFoundError:
        return []
results = done()
for fold in range(3):
    if fold in results:
        continue
    model = make()
    history = train(model, fold, lambda epoch, loss: None, epochs=3)
    place(f"between:{fold}")
    with open("out/results.txt", "a") as file:
        file.write(f"{fold} {fold * model.get_weights()[0].sum()}\\n")
    place(f"after:{fold}")
assert done() == [0, 1, 2], done()
"""
)

READS_AT_THE_END = FOLDS.replace("results = done()", "results = []").replace(
    "epochs=3",
    "epochs=3, callbacks=[keras.callbacks.CSVLogger(f'out/{fold}.csv'),"
    " keras.callbacks.CSVLogger('out/all.csv', append=True)]",
)

SCENARIOS = {
    "kept open": (KEPT_OPEN, ["epoch:0:0", "epoch:0:2"]),
    "kept open, killed more often": (
        KEPT_OPEN,
        ["step:0:4:1", "epoch:0:0", "epoch:0:2", "epoch:0:3"],
    ),
    "opened each time": (
        OPENED_EACH_TIME,
        ["step:0:4:3", "epoch:0:1", "epoch:0:2", "epoch:0:3"],
    ),
    "folds": (
        READS_AT_THE_END,
        ["epoch:0:1", "after:0", "epoch:1:2", "between:1", "after:1", "epoch:2:1"],
    ),
}


def contents(directory: Path) -> dict[str, bytes]:
    """What the files below ``out`` hold, but for what was cut off."""
    found = sorted((directory / "out").rglob("*"))
    files = [path for path in found if path.is_file() and ".cut-" not in path.name]
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def attempts_in(directory: Path, zygote: Zygote, **options: object) -> Attempts:
    """A run whose files are put back."""
    chosen: dict[str, object] = {"rewind": (".",), "snapshot_every_steps": 3, **options}
    return Attempts(directory, chosen, zygote=zygote)


def notices(outcome: AttemptOutcome) -> str:
    """What the person was told."""
    return "\n".join(notice["sentence"] for notice in outcome.of(RecordKind.NOTICE))


@pytest.mark.parametrize("name", sampled(SCENARIOS, "kept open"))
def test_files_end_as_in_a_run_that_was_never_killed(
    name: str, tmp_path: Path, zygote: Zygote
) -> None:
    """Appended, kept open, rewritten, replaced, by Keras; and existing ones."""
    text, deaths = SCENARIOS[name]
    whole, torn = (attempts_in(tmp_path / part, zygote) for part in ("whole", "torn"))
    for run in (whole, torn):
        run.script(text)
        (run.directory / "out").mkdir()
        (run.directory / "out" / "older.txt").write_text("of another run\n")
    expected = whole.run(whole.directory / "train.py", plain=True)
    assert expected.code == 0, expected.err
    for death in deaths:
        # What was there before the run is put back where a snapshot knows of it alone.
        more = {"WAIT": ""} if name == "opened each time" else {}
        environment = {"DIE": death, **more}
        killed = torn.run(torn.directory / "train.py", environment=environment)
        assert killed.code == -signal.SIGKILL, (death, killed.err)
    last = torn.run(torn.directory / "train.py")
    assert last.code == 0, last.err
    assert contents(torn.directory) == contents(whole.directory)
    assert "left as it is" not in notices(last)


@pytest.mark.slow
def test_an_attempt_that_found_no_snapshot_writes_anew(
    tmp_path: Path, zygote: Zygote
) -> None:
    """What the attempts before it wrote is not taken for what it wrote itself."""
    whole, torn = (attempts_in(tmp_path / part, zygote) for part in ("whole", "torn"))
    for run in (whole, torn):
        run.script(KEPT_OPEN)
    assert whole.run(whole.directory / "train.py", plain=True).code == 0
    for death in ["epoch:0:0", "epoch:0:2"]:
        environment = {"DIE": death, "WAIT": ""}
        killed = torn.run(torn.directory / "train.py", environment=environment)
        assert killed.code == -signal.SIGKILL, (death, killed.err)
        if death == "epoch:0:0":
            shutil.rmtree(torn.directory / "snapshots")
    last = torn.run(torn.directory / "train.py")
    assert last.code == 0, last.err
    assert contents(torn.directory) == contents(whole.directory)
    assert "left as it is" not in notices(last)


@pytest.mark.slow
def test_a_script_that_skips_what_it_finds_done(tmp_path: Path, zygote: Zygote) -> None:
    """It makes fewer calls of fit than before: none gets the state of another, and that
    bits are not promised is told."""
    whole, torn = (attempts_in(tmp_path / part, zygote) for part in ("whole", "torn"))
    path = whole.script(FOLDS)
    assert whole.run(path, plain=True).code == 0
    torn.script(FOLDS)
    for death in ["epoch:1:1", "after:1", "epoch:2:1"]:
        killed = torn.run(torn.directory / "train.py", environment={"DIE": death})
        assert killed.code == -signal.SIGKILL, (death, killed.err)
    last = torn.run(torn.directory / "train.py")
    assert last.code == 0, last.err
    assert contents(torn.directory) == contents(whole.directory)
    assert "has read results.txt, which it wrote in training" in notices(last)
    (promise,) = last.of(RecordKind.PROMISE)
    assert promise["bits"] is False
