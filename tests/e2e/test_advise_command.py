"""``trainwarden advise``: alternatives of somebody's own script, measured and not trained."""

import json
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.core.jobs.spec import build_spec, read_toml
from supervisor.core.jobs.spec_values import SnapshotInterval
from supervisor.core.memory.trial_results import TrialOutcome
from tests.support.command import PATIENCE, Trainwarden
from tests.support.unmeasurable import UNMEASURABLE, check_is_refused

LIMIT = "34MiB"
"""A third of what SCRIPT needs as it is."""
SCRIPT = """
from pathlib import Path
import keras
import numpy as np

keras.utils.set_random_seed(1)
x = np.random.default_rng(1).random((256, 32, 32, 1), "float32")
y = np.random.default_rng(2).integers(0, 10, 256)
model = keras.Sequential([
    keras.Input((32, 32, 1)),
    *(keras.layers.Conv2D(8, 3, padding="same", activation="relu") for _ in range(10)),
    keras.layers.GlobalAveragePooling2D(),
    keras.layers.Dense(10),
])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("adam", loss)
try:
    model.fit(x, y, batch_size=256, epochs=2, verbose=0, callbacks=[
        keras.callbacks.CSVLogger("log.csv"),
    ])
finally:
    Path("trained").touch()
"""
SMALL = """
import keras
import numpy as np
from pathlib import Path

POLICY
x = np.random.default_rng(1).random((64, 16), "float32")
model = keras.Sequential([
    keras.Input((16,)),
    keras.layers.Dense(512, activation="gelu"),
    keras.layers.BatchNormalization(),
    keras.layers.Dense(1),
])
model.compile("adam", "mse")
model.fit(x, x[:, :1], batch_size=8, epochs=2, verbose=0)
Path("trained").touch()
"""


def patiently(
    trainwarden: Trainwarden, *words: str | Path
) -> subprocess.CompletedProcess[str]:
    """Advise, however many processes that are started wait for a busy machine."""
    return subprocess.run(
        trainwarden.command("advise", *words),
        cwd=trainwarden.directory,
        capture_output=True,
        text=True,
        timeout=5 * PATIENCE,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def left_in(directory: Path) -> set[str]:
    """The names of what stands there."""
    return {path.name for path in directory.iterdir()}


@pytest.mark.slow
def test_a_network_that_needs_three_times_the_limit_is_shown_what_fits(
    trainwarden: Trainwarden, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The numbers are those of the whole batch, but for rounding; the run with what was
    written ends, in one attempt. Nothing was trained before, no callback of the script's was
    called, and nothing is left."""
    # On any processor: without it convolutions take 30 MiB however few samples there are.
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "1")
    script = trainwarden.script(SCRIPT)
    options = ("--cpu-memory", LIMIT, "--only", "slices", "--steps", "8")
    done = patiently(trainwarden, "--json", "--apply", *options, script.name)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert left_in(trainwarden.directory) == {"train.py", "state", "train.advised.toml"}
    assert not list(trainwarden.state.iterdir())
    assert not found["fits_as_it_is"]
    assert found["reference"]["peak_bytes"] > 2.5 * found["limit_bytes"]
    assert found["trials"][0]["outcome"] == TrialOutcome.NO_ROOM
    best = found["best"]
    assert best["peak_bytes"] <= 0.9 * found["limit_bytes"]
    assert best["numbers"] in {"bits", "rounding"}
    assert best["difference"] < 1e-5
    spec = build_spec(read_toml(_text(trainwarden)))
    assert spec.compute.slice == best["spec"]["compute"]["slice"]
    ended = trainwarden("run", "--json", "--spec", "train.advised.toml")
    assert ended.returncode == 0, ended.stderr
    job = json.loads(ended.stdout.splitlines()[-1])["job"]
    assert (job["state"], job["attempt"], job["incidents"]) == ("finished", 1, {})
    assert job["microbatch"]["size"] == spec.compute.slice


def _text(trainwarden: Trainwarden) -> str:
    return (trainwarden.directory / "train.advised.toml").read_text()


@pytest.mark.slow
def test_what_each_alternative_does_to_the_numbers(trainwarden: Trainwarden) -> None:
    """A second call with several steps keeps the bits, and so do activations that are
    computed again; another optimizer is another computation. An unseeded script has the same
    start in every trial, and a short one makes its steps in more than one epoch."""
    script = trainwarden.script(SMALL.replace("POLICY", ""))
    axes = ("recompute", "steps_per_execution", "optimizer")
    only = [word for axis in axes for word in ("--only", axis)]
    done = patiently(trainwarden, "--json", *only, script)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    tried = {one["title"]: one for one in found["trials"]}
    assert tried["as it is"]["numbers"] == "bits"
    assert tried["4 steps per execution"]["numbers"] == "bits"
    again = tried["recomputation"]
    assert again["numbers"] in {"bits", "rounding"}
    assert (again["fit"]["recomputed"], again["fit"]["not_recomputed"]) == (2, 1)
    optimizers = [one for one in found["trials"] if "optimizer" in one["change"]]
    left = [one for one in found["not_tried"] if "optimizer" in one["change"]]
    assert len(optimizers) + len(left) == 3
    assert {one["numbers"] for one in optimizers} <= {"different computation"}
    assert not any("does not compute the same twice" in one for one in found["notes"])
    assert not (trainwarden.directory / "trained").exists()


@pytest.mark.slow
def test_a_policy_of_the_scripts_own_is_told_from_one_that_was_tried(
    trainwarden: Trainwarden,
) -> None:
    """What was measured then is not what was asked for."""
    own = 'keras.config.set_dtype_policy("float32")'
    script = trainwarden.script(SMALL.replace("POLICY", own))
    done = patiently(trainwarden, "--only", "precision", script)
    assert done.returncode == 0, done.stderr
    assert "not applied: the script sets its own dtype policy, float32" in " ".join(
        done.stdout.split()
    )
    assert "best: as it is" in done.stdout
    assert "nothing was trained" in done.stdout


@pytest.mark.slow  # ``estimate`` has one that is not, by the same code
@pytest.mark.parametrize(("text", "sentence"), UNMEASURABLE)
def test_what_cannot_be_tried(
    trainwarden: Trainwarden, text: str, sentence: str
) -> None:
    """A sentence, 1, and no table."""
    check_is_refused(trainwarden, "advise", text, sentence)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--cpu-memory", "much", "train.py"), "--cpu-memory"),
        (("--gpu-memory", "much", "train.py"), "--gpu-memory"),
        (("--only", "magic", "train.py"), "magic"),
        (("--patience", "nan", "train.py"), "a number of seconds"),
        (("gone.py",), "there is no script gone.py"),
        (("digits",), "there is no job 'digits'"),
        (("--apply", "train.py"), "train.advised.toml is there"),
    ],
)
def test_what_is_asked_wrongly(
    trainwarden: Trainwarden, words: tuple[str, ...], sentence: str
) -> None:
    """A sentence and 2, before anything is started."""
    trainwarden.state.mkdir(exist_ok=True)
    trainwarden.script("print('never')")
    trainwarden.script("# of somebody's", name="train.advised.toml")
    done = trainwarden("advise", *words)
    assert done.returncode == 2, done.stdout + done.stderr
    assert sentence in done.stderr
    assert "trying" not in done.stderr


def test_nothing_is_left_where_it_is_interrupted(trainwarden: Trainwarden) -> None:
    """Neither a process nor a file."""
    script = trainwarden.script(SMALL.replace("POLICY", "import time; time.sleep(600)"))
    process = trainwarden.start("advise", script)
    until = time.monotonic() + PATIENCE
    while not list(
        trainwarden.state.glob("advise-*/1/jobs/*/run-1/attempts/0001/page")
    ):
        assert time.monotonic() < until
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=PATIENCE) == 130
    assert not list(trainwarden.state.iterdir())


def test_what_was_measured_is_printed_where_it_is_interrupted(
    trainwarden: Trainwarden,
) -> None:
    """Of a trial that began second the one before; and nothing is left there either."""
    script = trainwarden.script(SMALL.replace("POLICY", ""))
    process = trainwarden.start("advise", "--only", "slices", "--steps", "8", script)
    until = time.monotonic() + PATIENCE
    while not list(
        trainwarden.state.glob("advise-*/2/jobs/*/run-1/attempts/0001/page")
    ):
        assert time.monotonic() < until
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "2 of at most 5; about " in said
    assert "best so far: as it is" in said
    assert "it was ended before 4 more trials were made, at most" in said
    assert not list(trainwarden.state.iterdir())


@pytest.mark.slow
def test_a_job_is_advised_by_its_name(
    trainwarden: Trainwarden, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own spec, script and arguments, from where it was run, wherever the command is
    called; what is written says so, too. An option wins over the spec."""
    # As above: so little is enough for slices on any processor.
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "1")
    own = "import sys; from pathlib import Path; assert sys.argv[1:] == ['--fast']\n"
    own += "assert len(Path('train.py').read_text()) > 100\n"
    script = trainwarden.script(own + SCRIPT)
    options = ("--cpu-memory", "300MiB", "--snapshot-every", "200steps")
    run = trainwarden("run", "--name", "mine", *options, script.name, "--fast")
    assert run.returncode == 0, run.stderr
    elsewhere = trainwarden.directory / "elsewhere"
    elsewhere.mkdir()
    there = replace(trainwarden, directory=elsewhere, started=[])
    there.script("raise SystemExit('another script')")
    asked = ("--cpu-memory", LIMIT, "--only", "slices", "--steps", "8", "--apply")
    done = patiently(there, "--json", *asked, "mine")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["trials"][0]["title"] == "as it is"
    assert left_in(elsewhere) == {"train.py", "mine.advised.toml"}
    spec = build_spec(read_toml((elsewhere / found["applied"]).read_text()))
    assert spec.script == str(script)
    assert spec.working_directory == str(trainwarden.directory)
    assert (spec.name, spec.args) == ("mine", ("--fast",))
    assert spec.memory.cpu == found["limit_bytes"] == 34 * 2**20
    assert spec.snapshots.every == SnapshotInterval(steps=200)
    assert spec.compute.slice


@pytest.mark.slow
def test_slices_near_the_limit_are_not_taken_for_a_batch_that_is_not_sliced(
    trainwarden: Trainwarden,
) -> None:
    """Where two slices need all of the limit a run goes on in three, and advise says that:
    a batch that cannot be sliced is another thing, after which no more would be tried."""
    script = trainwarden.script(SCRIPT)
    options = ("--only", "slices", "--steps", "8", "--cpu-memory")
    done = patiently(trainwarden, "--json", *options, "400MiB", script.name)
    assert done.returncode == 0, done.stderr
    roomy = {one["title"]: one for one in json.loads(done.stdout)["trials"]}
    limit = int(roomy["2 slices"]["peak_bytes"] / 0.99) // 1024
    done = patiently(trainwarden, "--json", *options, f"{limit}KiB", script.name)
    found = json.loads(done.stdout)
    outcomes = {one["title"]: one["outcome"] for one in found["trials"]}
    assert TrialOutcome.NOT_APPLIED not in outcomes.values(), found["trials"]
    assert outcomes["4 slices"] == TrialOutcome.MEASURED, found["trials"]
    assert found["best"] is not None


@pytest.mark.slow
def test_the_batches_of_a_generator_are_tried_in_slices(
    trainwarden: Trainwarden,
) -> None:
    """As a run does: the batch that Keras drew to look at tells how large they are."""
    generator = "def batches():\n    while True:\n        yield x[:8], x[:8, :1]\n"
    text = SMALL.replace("POLICY", "").replace(
        "model.fit(x, x[:, :1], batch_size=8, epochs=2, verbose=0)",
        f"{generator}model.fit(batches(), steps_per_epoch=8, epochs=2, verbose=0)",
    )
    done = patiently(
        trainwarden, "--json", "--only", "slices", trainwarden.script(text)
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["batch"], found["not_tried"]) == (8, [])
    assert {one["title"]: one["outcome"] for one in found["trials"]} == dict.fromkeys(
        ("as it is", "2 slices", "4 slices", "8 slices"), TrialOutcome.MEASURED
    )
