"""A fit whose loss is lost is made again in its process, where nothing is in doubt."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from supervisor.wire.event_file import RecordKind
from supervisor.wire.messages.recovery_answer import RecoveryAnswer
from supervisor.wire.paths import AttemptPaths
from tests.support.answering import Answer, answering, go_back
from tests.support.attempts import AttemptOutcome, Attempts
from tests.support.samples import sampled
from tests.support.zygote import Zygote
from trainers.process import recovery_request

SCRIPT = """
import json
import keras, numpy as np, tensorflow as tf

keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(80, 4)).astype("float32")
y = (x.sum(axis=1, keepdims=True) > 0).astype("float32")
model = keras.Sequential([
    keras.Input((4,)), keras.layers.Dense(8, activation="relu"),
    keras.layers.BatchNormalization(), keras.layers.Dropout(0.3), keras.layers.Dense(1),
])
data, validation, callbacks, more, SEEN = (x, y), (x[:20], y[:20]), [], {}, []


class Counts(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.batches, self.epochs = 0, []

    def on_train_batch_end(self, batch, logs=None):
        self.batches += 1

    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append(logs["val_loss"])


callbacks.append(Counts())
SETUP
model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True), **more)
if isinstance(data, tuple):
    given = dict(x=data[0], y=data[1], batch_size=8)
else:
    given = dict(x=data, steps_per_epoch=None if hasattr(data, 'batch') else 10)
history = model.fit(
    **given, epochs=4, validation_data=validation, verbose=0,
    callbacks=[*callbacks, keras.callbacks.EarlyStopping(patience=9)],
)
counts = callbacks[0]
json.dump(
    [
        [one.tolist() for one in model.get_weights()],
        [np.asarray(one).tolist() for one in model.optimizer.variables],
        history.history, counts.batches, counts.epochs, SEEN,
        [float(keras.random.uniform(())), np.random.random()],
    ],
    open("result.json", "w"),
)
"""
OPTIONS = {"snapshot_every_steps": 3, "watch_loss": True}
PIPELINE = "data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)"


@pytest.fixture
def attempts(tmp_path: Path, zygote: Zygote) -> Attempts:
    """A run with a snapshot after every third step."""
    return Attempts(tmp_path / "run", OPTIONS, zygote=zygote)


def run(
    attempts: Attempts,
    setup: str = "",
    *,
    lose_at: tuple[int, ...] = (),
    answer: Answer = go_back,
    **changes: Any,
) -> AttemptOutcome:
    """One attempt, whose loss is lost after these steps."""
    script = attempts.script(SCRIPT.replace("SETUP", setup))
    root = attempts.directory / f"attempt-{attempts.count + 1}"
    with answering(AttemptPaths(root), answer):
        return attempts.run(
            script, in_place=bool(lose_at), lose_at_steps=lose_at, **changes
        )


def result(attempts: Attempts) -> Any:
    """What the script left."""
    return json.loads((attempts.directory / "result.json").read_text())


Undisturbed = Callable[[str], Any]


@pytest.fixture(scope="module")
def undisturbed(
    tmp_path_factory: pytest.TempPathFactory, zygote: Zygote
) -> Undisturbed:
    """What the script leaves, by its setup, where nothing happens; run once each."""

    @functools.cache
    def whole(setup: str) -> Any:
        directory = tmp_path_factory.mktemp("whole") / "run"
        attempts = Attempts(directory, OPTIONS, zygote=zygote)
        assert run(attempts, setup).code == 0
        return result(attempts)

    return whole


SETUPS = {
    "arrays": "",
    "jit": "more = dict(jit_compile=True)",
    "pipeline": PIPELINE,
    "validation_pipeline": f"{PIPELINE}\nvalidation = data",
    "csv": "callbacks.append(keras.callbacks.CSVLogger('log.csv'))",
}


@pytest.mark.parametrize("name", sampled(SETUPS, "arrays"))
def test_it_ends_as_if_nothing_had_happened(
    attempts: Attempts, undisturbed: Undisturbed, name: str
) -> None:
    """Weights, optimizer, History, callbacks and generators to the bit: after losses in
    the first epoch, at the end of one, and in a later one."""
    setup = SETUPS[name]
    outcome = run(attempts, setup, lose_at=(5, 20, 33))
    assert outcome.code == 0, outcome.err
    assert [one["number"] for one in outcome.of(RecordKind.GOES_ON)] == [1, 2, 3]
    assert result(attempts) == undisturbed(setup)
    proofs = [one["result"] for one in outcome.of(RecordKind.PROOF)]
    assert set(proofs) <= {"begun", "proved", "skipped"}, proofs
    assert "proved" in proofs


GENERATOR = """
def endless():
    while True:
        yield x[:8], y[:8]
data = endless()
"""
GROWN = """
class Sees(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if int(self.model.optimizer.iterations) > 6:
            SEEN.append(batch)
callbacks.append(Sees())
"""
HOLDS = """
class Holds(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        self.held = (one for one in [1, 2])
callbacks.append(Holds())
"""
DRAWS = """
ticks = iter(range(1000))
class Ticks(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        next(ticks)
callbacks.append(Ticks())
"""
DOUBTS = {
    "iterator": (DRAWS, "a Python iterator"),
    "shuffled": (f"{PIPELINE}.shuffle(4, seed=3)", "is shuffled"),
    "shuffled_validation": (
        f"{PIPELINE.replace('data', 'validation', 1)}.shuffle(4, seed=3)",
        "is shuffled",
    ),
    "cached": (f"{PIPELINE}.cache()", "has a cache"),
    "generator": (GENERATOR, "have a state of their own"),
    "grown_since": (GROWN, "SEEN has changed since the snapshot"),
    "holds": (HOLDS, "keeps what is not saved in held"),
}


@pytest.mark.parametrize("doubt", sampled(DOUBTS, "grown_since"))
def test_in_doubt_its_process_ends(attempts: Attempts, doubt: str) -> None:
    """And the reason is told; nobody is asked."""
    setup, because = DOUBTS[doubt]
    script = attempts.script(SCRIPT.replace("SETUP", setup))
    outcome = attempts.run(script, in_place=True, lose_at_steps=(8,))
    assert outcome.code == 1, outcome.err
    told = [one["sentence"] for one in outcome.of(RecordKind.NOTICE)]
    assert any(
        "does not go on in this process" in one and because in one for one in told
    ), told
    assert outcome.of(RecordKind.STEP_FAILED) == []
    assert outcome.crash.exception == "trainwarden.NonFiniteLoss"


def ends(number: int, _step: int) -> RecoveryAnswer:
    """The supervisor wants another process."""
    return RecoveryAnswer(number=number, goes_on=False)


def silent(_number: int, _step: int) -> None:
    """There is no supervisor any more."""


def of_another(number: int, _step: int) -> RecoveryAnswer:
    """What was answered to an earlier failure."""
    return RecoveryAnswer(number=number + 1, goes_on=True)


@pytest.mark.parametrize(
    "answer",
    [
        ends,
        *(pytest.param(one, marks=pytest.mark.slow) for one in (silent, of_another)),
    ],
)
def test_without_leave_its_process_ends(
    attempts: Attempts,
    undisturbed: Undisturbed,
    answer: Callable[[int, int], RecoveryAnswer | None],
) -> None:
    """As it would have without asking; the next attempt ends as if nothing had happened."""
    outcome = run(attempts, lose_at=(8,), answer=answer)
    assert outcome.code == 1, outcome.err
    assert len(outcome.of(RecordKind.STEP_FAILED)) == 1
    assert outcome.of(RecordKind.GOES_ON) == []
    assert outcome.crash.exception == "trainwarden.NonFiniteLoss"
    assert recovery_request.ANSWER_SECONDS <= 30.0
    assert run(attempts, restore_before_step=8).code == 0
    assert result(attempts) == undisturbed("")


def test_where_it_failed_before_it_is_not_made_again(attempts: Attempts) -> None:
    """The second failure at one place is for a new process."""
    outcome = run(attempts, lose_at=(8, 8))
    assert outcome.code == 1, outcome.err
    assert len(outcome.of(RecordKind.GOES_ON)) == 1
    told = [one["sentence"] for one in outcome.of(RecordKind.NOTICE)]
    assert any("the same step failed before" in one for one in told), told


@pytest.mark.slow
def test_before_the_first_snapshot_there_is_nothing_to_go_back_to(
    attempts: Attempts,
) -> None:
    """The script has to run from its top."""
    outcome = run(attempts, lose_at=(2,))
    assert outcome.code == 1, outcome.err
    told = [one["sentence"] for one in outcome.of(RecordKind.NOTICE)]
    assert any("no snapshot of this call" in one for one in told), told


NO_MEMORY = """
import pathlib

def refuse(*_args, **_kwargs):
    raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")


class Refuses(keras.callbacks.Callback):
    # Once, and where a restart does not look: a hidden file, a class of TensorFlow's.
    def on_train_batch_end(self, batch, logs=None):
        once = pathlib.Path(".refused")
        if int(self.model.optimizer.iterations) == 8 and not once.exists():
            once.touch()
            setattr(type(PLACE), "assign", refuse)
callbacks.append(Refuses())
"""


@pytest.mark.slow
def test_no_memory_to_go_back_with_is_left_to_a_new_process(
    attempts: Attempts, undisturbed: Undisturbed
) -> None:
    """The crash is that of before: the loss is lost, as if nobody had tried; the reason is
    told, and the next attempt ends as if nothing had happened."""
    setup = NO_MEMORY.replace("PLACE", "self.model.weights[0].value")
    outcome = run(attempts, setup, lose_at=(8,))
    assert outcome.code == 1, outcome.err
    assert outcome.of(RecordKind.GOES_ON) == []
    assert outcome.crash.exception == "trainwarden.NonFiniteLoss"
    told = [one["sentence"] for one in outcome.of(RecordKind.NOTICE)]
    assert any("OOM when allocating" in one for one in told), told
    assert run(attempts, setup, restore_before_step=8).code == 0
    assert result(attempts) == undisturbed("")
