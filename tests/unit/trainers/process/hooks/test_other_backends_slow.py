"""Keras on JAX and on PyTorch: fits are resumed exactly; what is not is said."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from supervisor.core.causes import Cause
from supervisor.wire.messages.directive import EXIT_REFUSED
from tests.certify.certify import TABLES, run_rows, short
from tests.support.attempts import AttemptOutcome, Attempts
from tests.support.command import Trainwarden
from tests.support.zygote import PACKAGES, zygote
from trainers.process.environment import self_test, user_cache


@dataclass(frozen=True, kw_only=True)
class KerasChoice:
    """What Keras computes with."""

    name: str
    title: str
    trainer: str
    out_of_memory: str
    """What it says where memory runs out."""

    @property
    def packages(self) -> str:
        """Where it is installed."""
        return os.fspath(PACKAGES[self.name])

    def script(self, text: str) -> str:
        """``text`` for it."""
        return text.replace("@BACKEND@", self.name).replace("@TRAINER@", self.trainer)


JAX = KerasChoice(
    name="jax",
    title="JAX",
    trainer="JAXTrainer",
    out_of_memory="RESOURCE_EXHAUSTED: Out of memory",
)
TORCH = KerasChoice(
    name="torch",
    title="PyTorch",
    trainer="TorchTrainer",
    out_of_memory="DefaultCPUAllocator: can't allocate memory",
)


def _installed(where: KerasChoice) -> pytest.MarkDecorator:
    made = Path(where.packages).name
    reason = f"make .venv/{made} installs {where.title}; it is not here"
    return pytest.mark.skipif(not Path(where.packages).is_dir(), reason=reason)


pytestmark = pytest.mark.slow
on_jax = _installed(JAX)


@pytest.fixture(
    params=[
        pytest.param(one, marks=_installed(one), id=one.title) for one in (JAX, TORCH)
    ]
)
def where(request: pytest.FixtureRequest) -> KerasChoice:
    """Each that is installed."""
    found: KerasChoice = request.param
    return found


BEGINNING = """
import os
os.environ["KERAS_BACKEND"] = "@BACKEND@"
import keras
import numpy as np

x = np.random.default_rng(1).random((64, 8), "float32")
y = x.sum(1, keepdims=True)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
"""
KILLED = f"""{BEGINNING}
model.compile("adam", "mse")
history = model.fit(x, y, epochs=2, verbose=0)
model.evaluate(x, y, verbose=0)
model.save("model.keras")
keras.models.load_model("model.keras")
if not os.path.exists("died"):
    open("died", "w").close()
    os.kill(os.getpid(), 9)
print("backend", keras.backend.backend(), len(history.history["loss"]))
"""
OWN_LOOP = f"""{BEGINNING}
import jax

optimizer = keras.optimizers.Adam()
optimizer.build(model.trainable_variables)


def loss_of(trainable, fixed):
    found, fixed = model.stateless_call(trainable, fixed, x)
    return ((found - y) ** 2).mean(), fixed


@jax.jit
def step(trainable, fixed, slots):
    (loss, fixed), gradients = jax.value_and_grad(loss_of, has_aux=True)(trainable, fixed)
    trainable, slots = optimizer.stateless_apply(slots, gradients, trainable)
    return loss, trainable, fixed, slots


state = [
    [one.value for one in many]
    for many in (
        model.trainable_variables, model.non_trainable_variables, optimizer.variables
    )
]
for _ in range(5):
    loss, *state = step(*state)
print("steps", int(state[2][0]))
"""


OUT_OF_MEMORY = f"""{BEGINNING}
class Asks(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        keras.ops.ones((1 << 44,))

model.compile("adam", "mse")
model.fit(x, y, verbose=0, callbacks=[Asks()])
"""
SEEDED = f"""{BEGINNING}
import hashlib, sys

die = os.environ.get("DIE")

class Killed(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        seen.append(batch)
        if die and len(seen) == int(die):
            os.kill(os.getpid(), 9)

seen = []
# here
keras.utils.set_random_seed(3)
model = keras.Sequential([
    keras.layers.Dense(8, "relu"), keras.layers.BatchNormalization(),
    keras.layers.Dropout(0.3), keras.layers.Dense(1),
])
model.compile("adam", "mse")
found = model.fit(x, y, batch_size=10, epochs=4, verbose=0, callbacks=[Killed()],
                  validation_data=(x[:20], y[:20]))
total = hashlib.sha256()
for one in [*model.variables, *model.optimizer.variables]:
    total.update(np.asarray(one).tobytes())
print(total.hexdigest(), found.history)
print("without" if "tensorflow" not in sys.modules else "with")
"""
SESSION = f"""{BEGINNING}
from trainers.session import session

with session(model=model) as run:
    for epoch in run.epochs(2):
        for batch in run.batches([1, 2, 3]):
            run.log(loss=0.5)
    print(run.step, "steps")
"""
OTHER_INSIDE = """
def fit(self, *given, **more):
    return own(self, *given, **more)

from keras.src.backend.@BACKEND@.trainer import @TRAINER@ as Trainer
own, Trainer.fit = Trainer.fit, fit
"""


@pytest.fixture
def attempts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: KerasChoice
) -> Attempts:
    """A run whose scripts find it."""
    monkeypatch.setenv("PYTHONPATH", where.packages)
    return Attempts(tmp_path, {"snapshot_every_steps": 2})


@pytest.fixture
def no_tensorflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: KerasChoice
) -> None:
    """It cannot be imported."""
    package = tmp_path / "none" / "tensorflow"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('there is none')")
    monkeypatch.setenv("PYTHONPATH", f"{package.parent}:{where.packages}")


@pytest.fixture
def trainwarden(tmp_path: Path) -> Trainwarden:
    """The command."""
    return Trainwarden(tmp_path, tmp_path / "state")


def run(
    trainwarden: Trainwarden, where: KerasChoice, text: str, patch: pytest.MonkeyPatch
) -> Any:
    """The script ``text``, run to its end."""
    patch.setenv("PYTHONPATH", where.packages)
    return trainwarden("run", trainwarden.script(where.script(text)))


def test_a_fit_is_resumed_and_loops_are_told_of(
    trainwarden: Trainwarden, where: KerasChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fit that was done is given back; what is said of loops comes at each start."""
    done = run(trainwarden, where, KILLED, monkeypatch)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    sentence = f"the backend is {where.title}: calls of fit are resumed; loops of"
    assert said.count(sentence) == 2, said
    assert f"backend {where.name} 2" in said
    assert [one["cause"] for one in trainwarden.json("incidents")] == [Cause.PREEMPTED]


@on_jax
def test_a_loop_of_the_scripts_own_runs(
    trainwarden: Trainwarden, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its optimizer is applied to tracers, inside of ``jax.jit``."""
    done = run(trainwarden, JAX, OWN_LOOP, monkeypatch)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "steps 5" in said


def test_memory_that_runs_out_is_named(
    trainwarden: Trainwarden, where: KerasChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real shortage; no smaller batch is promised for it."""
    done = run(trainwarden, where, OUT_OF_MEMORY, monkeypatch)
    assert done.returncode == 1, done.stdout + done.stderr
    assert where.out_of_memory in done.stdout + done.stderr
    causes = {one["cause"] for one in trainwarden.json("incidents")}
    assert causes == {Cause.HOST_OOM}
    assert "slice" not in done.stderr


NO_ROOM = """
import keras, numpy as np
class Full(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB.")
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.ones((64, 4)), np.ones((64, 1)), batch_size=16, verbose=0, callbacks=[Full()])
"""
"""As on a GPU that is too small for the first step."""


def test_a_device_that_is_too_small_gets_slices(
    trainwarden: Trainwarden, where: KerasChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one restart; the attempt confirms the size, and keeps it."""
    monkeypatch.setenv("KERAS_BACKEND", where.name)
    whole = 'if "train_step" not in vars(self.model):\n            raise'
    done = run(trainwarden, where, NO_ROOM.replace("raise", whole), monkeypatch)
    assert done.returncode == 0, done.stdout + done.stderr
    (incident,) = trainwarden.json("incidents")
    assert (incident["cause"], incident["remedy"]["kind"]) == (
        Cause.DEVICE_OOM,
        "microbatch",
    )
    (status,) = trainwarden.json("status")
    assert status["attempt"] == 2
    assert (status["microbatch"]["slices"], status["microbatch"]["size"]) == (2, 8)


def killed(
    attempts: Attempts, script: Path, *, at: str, **options: Any
) -> AttemptOutcome:
    """The next attempt, killed at the steps ``at``; without any it comes to its end."""
    return attempts.run(script, environment={"DIE": at}, **options)


def told(outcome: AttemptOutcome) -> str:
    """What was said."""
    return " ".join(one["sentence"] for one in outcome.of("notice"))


@pytest.mark.usefixtures("no_tensorflow")
def test_a_script_without_tensorflow(tmp_path: Path, where: KerasChoice) -> None:
    """Arrays need none of it: killed three times, it ends as it does alone."""
    attempts = Attempts(tmp_path, {"snapshot_every_steps": 2})
    script = attempts.script(where.script(SEEDED))
    alone = attempts.run(script, plain=True)
    for at in ("3", "8", "11"):
        assert killed(attempts, script, at=at).code == -signal.SIGKILL
    last = killed(attempts, script, at="")
    assert last.of("restored")
    assert (last.code, last.out) == (0, alone.out), last.err
    assert alone.out.endswith("without\n")


def test_a_session_only_iterates(attempts: Attempts, where: KerasChoice) -> None:
    """Its loop is the script's own, and that it is not resumed is said."""
    done = attempts.run(attempts.script(where.script(SESSION)))
    assert (done.code, done.out) == (0, "6 steps\n"), done.err
    assert f"the backend is {where.title}: the loops of a session are" in told(done)


def test_a_version_that_is_another_inside(
    attempts: Attempts, where: KerasChoice
) -> None:
    """It is watched and restarted, and said is that it is not resumed."""
    script = attempts.script(where.script(SEEDED.replace("# here", OTHER_INSIDE)))
    done = killed(attempts, script, at="")
    assert done.code == 0, done.err
    assert "not as expected inside (the parameters of fit are others; " in told(done)
    assert not done.of("promise")


@_installed(TORCH)
def test_no_estimate_is_made_on_pytorch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is said where ``fit`` is called: nothing is trained, and no callback is told."""
    monkeypatch.setenv("PYTHONPATH", TORCH.packages)
    attempts = Attempts(tmp_path)
    script = attempts.script(TORCH.script(SEEDED))
    done = killed(attempts, script, at="", estimate_seconds=20.0)
    assert (done.code, done.out) == (EXIT_REFUSED, ""), done.err
    (refused,) = done.of("refused")
    assert "on PyTorch the memory of a step is not known" in refused["sentence"]


@_installed(TORCH)
def test_a_version_that_was_not_tried_is_by_a_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The self-test holds for real, and is kept: the next who asks does not wait."""
    monkeypatch.setenv("PYTHONPATH", TORCH.packages)
    monkeypatch.setenv(user_cache.CACHE, os.fspath(tmp_path))
    versions = ("3.11", "3.99", "2.99")
    assert self_test.wrong_with(versions, backend="torch") is None
    kept = self_test.kept("fit on torch", versions)
    assert kept is not None
    assert kept.exists()


def test_killed_runs_end_as_if_they_had_not_been(where: KerasChoice) -> None:
    """A few rows of ``make certify-jax`` or ``certify-torch``: the same bits."""
    table, names = TABLES[where.name]
    rows = [row for row in table if row.name in names]
    with zygote(where.name) as parent:
        results = run_rows(short(rows), parent, seed=1)
    assert {v.row.name: v.problems for v in results} == {name: [] for name in names}
    assert all(result.bits for result in results)
