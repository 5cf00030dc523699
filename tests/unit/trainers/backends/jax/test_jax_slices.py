"""k slices against one on JAX, and the size that XLA's analysis allows."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from supervisor.wire.event_file import RecordKind
from supervisor.wire.reasons import RefusalReason, SizeSource
from tests.support.attempts import AttemptOutcome, Attempts
from tests.support.samples import sampled
from tests.support.zygote import OTHER_BACKENDS

pytestmark = pytest.mark.skipif(
    not (OTHER_BACKENDS / "jax").is_dir(),
    reason="JAX is not here: make .venv/other-backends",
)
ROOT = Path(__file__).parents[5]
MODELS = ROOT / "tests" / "support" / "jax_sliced_models.py"
EXACT = {
    "everything": "exact",
    "class weights": "exact",
    "conv": "exact",
    "eager": "exact",
    "not compiled": "exact",
    "two outputs": "exact",
    "two outputs, one summed": "two_pass",
    "sum": "exact",
    "weighted mean": "two_pass",
    "coupled loss": "two_pass",
    "mask": "two_pass",
    "embedding": "exact",
    "added sum": "exact",
    "own losses": "two_pass",
    "unbuilt": "exact",
    "accumulating optimizer": "exact",
    "temperature": "two_pass",
    "weight in a loss": "two_pass",
    "moving average in a loss": "two_pass",
    "padding later": "two_pass",
    "sum that is zero at first": "exact",
    "zeros under a root": "exact",
}
"""Cases that whole batches and slices agree in, and how they are sliced."""
HALF = (
    "layers compute in half precision: their gradients are rounded in each slice, and not"
    " once for the whole batch"
)
DEVIATING = {
    "gate that is shut": "the prediction for a sample depends on the other samples",
    "batch norm": "keeps statistics of what it is given: it is given slices",
    "dropout": "draw random numbers: slices draw others than a whole batch",
    "float16": HALF,
    "float16, overflown": HALF,
    "bfloat16": HALF,
}
WHOLE = {
    "own step": "OwnStepOnJax has a train_step of its own",
    "step put in": "a train_step was put into Functional",
    "one size": "the model was built for batches of exactly 50",
}

Compared = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="module")
def compared() -> Compared:
    """What a case came to, whole and in slices; each in a process of its own, once."""
    found: dict[str, dict[str, Any]] = {}

    def of(name: str) -> dict[str, Any]:
        if name not in found:
            done = subprocess.run(
                [sys.executable, str(MODELS), name],
                env={
                    **os.environ,
                    "KERAS_BACKEND": "jax",
                    "PYTHONPATH": os.pathsep.join([str(OTHER_BACKENDS), str(ROOT)]),
                },
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            told, found[name] = json.loads(done.stdout.splitlines()[-1])
            assert told == name
        return found[name]

    return of


@pytest.mark.parametrize(
    "name", sampled(EXACT, "everything", "weighted mean", "temperature")
)
def test_slices_on_jax_change_nothing(name: str, compared: Compared) -> None:
    """After an epoch in slices: weights, optimizer and logs as after one in batches."""
    found = compared(name)
    ((kind, record),) = found["told"]
    assert kind == RecordKind.MICROBATCH
    assert (record["mode"], record["deviations"]) == (EXACT[name], [])
    assert (record["batch"], record["slices"], record["size"]) == (50, 4, 13)
    assert found["difference"] <= 1e-5
    assert found["iterations"][0] == found["iterations"][1] > 0
    assert found["whole"].keys() == found["sliced"].keys()
    for key, values in found["whole"].items():
        assert found["sliced"][key] == pytest.approx(values, rel=1e-5), key


@pytest.mark.parametrize("name", sampled(DEVIATING, "dropout"))
def test_what_slices_on_jax_change_is_told(name: str, compared: Compared) -> None:
    """In the sentences that TensorFlow has for it; a loss scaler keeps its clock."""
    found = compared(name)
    (deviation,) = found["told"][0][1]["deviations"]
    assert DEVIATING[name] in deviation
    assert found["iterations"][0] == found["iterations"][1] > 0
    if DEVIATING[name] is HALF:
        for key, values in found["whole"].items():
            assert found["sliced"][key] == pytest.approx(values, rel=2e-2), key


@pytest.mark.parametrize("name", sampled(WHOLE, "own step"))
def test_what_is_not_sliced_on_jax(name: str, compared: Compared) -> None:
    """It trains in whole batches, and says why."""
    found = compared(name)
    ((kind, record),) = found["told"]
    assert (kind, record) == (
        RecordKind.NOTICE,
        {"sentence": f"The batch is not sliced: {WHOLE[name]}."},
    )
    assert found["difference"] == 0.0


SCRIPT = """
import hashlib, os
import keras, numpy as np
from keras import layers

class OwnStep(keras.Sequential):
    def train_step(self, state, data):
        return super().train_step(state, data)

if "DEVICE" in os.environ:
    from trainers.backends.jax import jax_backend

    class Device:
        platform = "cpu"

        def memory_stats(self):
            return {"bytes_limit": 9 << 19, "bytes_in_use": (3 << 19) + 800_000}

    jax_backend.device_in_use = Device

keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(3584, 64)).astype("float32")
kind = OwnStep if "OWN" in os.environ else keras.Sequential
more = [layers.Dropout(0.2)] if "DROPS" in os.environ else []
model = kind([
    keras.Input((64,)),
    *[layers.Dense(64, activation="tanh") for _ in range(16)], *more, layers.Dense(1),
])
model.compile("adam", "mse", metrics=["mae"])
for epochs in (2, 1):
    done = model.fit(x, x[:, :1], batch_size=1024, epochs=epochs, verbose=0)
weights = [np.asarray(v).tobytes() for v in model.variables + model.optimizer.variables]
print("digest", hashlib.sha256(b"".join(weights)).hexdigest(), done.history["loss"])
"""
"""Batches of 1024, 1024, 1024, 512. A step needs 5.6 MiB for a whole batch, 3.8 MiB in two
slices, 2.7 MiB in four, 1.8 MiB in sixteen."""
ENVIRONMENT = {"KERAS_BACKEND": "jax", "PYTHONPATH": str(OTHER_BACKENDS)}


@pytest.fixture
def attempts(tmp_path: Path) -> Attempts:
    """With the script."""
    made = Attempts(tmp_path)
    made.script(SCRIPT)
    return made


def run(attempts: Attempts, *, more: str = "", **changes: Any) -> AttemptOutcome:
    """An attempt of the script."""
    environment = {**ENVIRONMENT, **({more: "1"} if more else {})}
    script = attempts.directory / "train.py"
    return attempts.run(script, environment=environment, **changes)


def digest(outcome: AttemptOutcome) -> str:
    """Of weights and optimizer, at its end."""
    (line,) = [one for one in outcome.out.splitlines() if one.startswith("digest")]
    return line


def test_killed_in_slices_on_jax(attempts: Attempts) -> None:
    """Killed three times under a plan: the bits of a run under that plan, undisturbed;
    random draws included."""
    plan: dict[str, Any] = {
        "slice_size": 350,
        "more": "DROPS",
        "snapshot_every_steps": 1,
    }
    whole = run(attempts, **plan, restore=False, snapshot_directory="others")
    assert whole.code == 0, whole.err
    for step in (3, 6, 9):
        assert run(attempts, **plan, die_at_step=step).code < 0
    resumed = run(attempts, **plan)
    assert resumed.code == 0, resumed.err
    assert digest(resumed) == digest(whole)
    told = resumed.of(RecordKind.MICROBATCH)
    assert {(one["slices"], one["size"], one["source"]) for one in told} == {
        (3, 342, SizeSource.ASKED)
    }
    assert resumed.page.slices == 3


@pytest.mark.parametrize(("limit", "size"), [(4.5, 512), (3.0, 256), (2.0, 64)])
def test_largest_slice_that_fits_is_known_before_a_step(
    attempts: Attempts, limit: float, size: int
) -> None:
    """By XLA's analysis: the size follows from the limit, and no step was tried."""
    found = run(
        attempts,
        calibrate=True,
        slice_size=512,
        slice_ceiling=1024,
        memory_limit_bytes=int(limit * 2**20),
    )
    assert found.code == 0, found.err
    told = found.of(RecordKind.MICROBATCH)[0]
    assert (told["size"], told["source"]) == (size, SizeSource.MEASURED), told
    assert "XLA's analysis" in told["planned"]


def test_what_else_a_device_holds_is_room_for_no_slice(attempts: Attempts) -> None:
    """A device of 4.5 MiB, and beside the model's state 1.5 MiB of others."""
    found = run(
        attempts, more="DEVICE", calibrate=True, slice_size=512, slice_ceiling=1024
    )
    assert found.code == 0, found.err
    told = found.of(RecordKind.MICROBATCH)[0]
    assert (told["size"], told["source"]) == (256, SizeSource.MEASURED), told


def test_without_a_limit_on_jax_half_is_taken(attempts: Attempts) -> None:
    """A CPU tells of none: what the plan says is taken, unmeasured."""
    found = run(attempts, calibrate=True, slice_size=512, slice_ceiling=1024)
    assert found.code == 0, found.err
    told = found.of(RecordKind.MICROBATCH)[0]
    assert (told["size"], told["source"]) == (512, SizeSource.ASKED)


def test_deviations_on_jax_can_be_forbidden(attempts: Attempts) -> None:
    """The run ends with the sentence."""
    found = run(attempts, more="DROPS", slice_size=64, allow_inexact=False)
    (refused,) = found.of(RecordKind.REFUSED)
    assert refused["reason"] == RefusalReason.INEXACT
    assert "draws random numbers" in refused["sentence"]


def test_what_fits_a_step_of_the_scripts_own_is_told(attempts: Attempts) -> None:
    """By the same analysis, where training never got anywhere."""
    found = run(
        attempts,
        more="OWN",
        calibrate=True,
        slice_size=512,
        slice_ceiling=1024,
        memory_limit_bytes=3 * 2**20,
    )
    (refused,) = found.of(RecordKind.REFUSED)
    assert refused["reason"] == RefusalReason.MEMORY
    assert "OwnStep has a train_step of its own; about " in refused["sentence"]
    assert "reduce" not in refused["sentence"]


DATA = """
import sys
import keras, numpy as np

keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(90, 4)).astype("float32")
y = x @ np.arange(4.0).astype("float32")[:, None]


def batches():
    while True:
        for at in range(0, 90, 20):
            yield x[at : at + 20], y[at : at + 20]


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 5

    def __getitem__(self, index):
        return x[20 * index : 20 * index + 20], y[20 * index : 20 * index + 20]


def pipeline():
    import tensorflow as tf

    rows = tf.data.Dataset.from_tensor_slices((x, y))
    return rows.shuffle(90).batch(20)


def arrays():
    import jax.numpy as jnp

    return jnp.asarray(x), jnp.asarray(y)


KINDS = {
    "arrays": lambda: (x, y), "JAX": arrays, "generator": batches,
    "PyDataset": lambda: Batches(workers=2), "pipeline": pipeline,
}
model = keras.Sequential([keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
model.compile("adam", "mse")
given = KINDS[sys.argv[1]]()
given = dict(zip("xy", given)) if isinstance(given, tuple) else {"x": given}
if "x" in given and len(given) == 1:
    done = model.fit(**given, epochs=3, steps_per_epoch=5, verbose=0)
else:
    done = model.fit(**given, epochs=3, batch_size=20, verbose=0)
print("losses", *done.history["loss"])
"""


@pytest.mark.parametrize(
    "kind", sampled(["arrays", "JAX", "generator", "PyDataset", "pipeline"], "arrays")
)
def test_looking_at_a_batch_moves_no_data(kind: str, tmp_path: Path) -> None:
    """A model that takes its shapes from its first batch, in slices: the same weights at
    the beginning, and the same batches in the same order, shuffled ones too."""
    attempts = Attempts(tmp_path)
    script = attempts.script(DATA)
    losses: list[list[float]] = []
    for size in (None, 7):
        done = attempts.run(
            script, kind, environment=ENVIRONMENT, slice_size=size, restore=False
        )
        assert done.code == 0, done.err
        assert bool(done.of(RecordKind.MICROBATCH)) is (size is not None), done.err
        (line,) = [one for one in done.out.splitlines() if one.startswith("losses")]
        losses.append([float(word) for word in line.split()[1:]])
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
