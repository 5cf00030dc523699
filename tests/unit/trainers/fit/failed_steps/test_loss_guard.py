"""A loss that is no number ends the attempt, if the weights are lost with it."""

import json
from pathlib import Path

import pytest

from supervisor.wire.event_file import RecordKind
from tests.support.attempts import Attempts
from tests.support.zygote import Zygote

SCRIPT = """
import json, sys
import keras, numpy as np, tensorflow as tf

keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
y = x.sum(axis=1, keepdims=True)
model = keras.Sequential(
    [keras.Input((4,)), keras.layers.Dense(1, name="scores")], name="ranker"
)


STEP, VALUE = int(sys.argv[1]), float(sys.argv[2])


class Poison(keras.callbacks.Callback):
    # Spoils the weights once after so many steps, as a broken update would.
    def on_train_batch_end(self, batch, logs=None):
        if int(self.model.optimizer.iterations.numpy()) == STEP:
            kernel = self.model.layers[-1].kernel
            kernel.assign(kernel * VALUE)


model.compile(keras.optimizers.SGD(float(sys.argv[3])), "mse")
callbacks = [Poison()]
if "terminate" in sys.argv:
    callbacks.append(keras.callbacks.TerminateOnNaN())
good = model.get_weights()
try:
    model.fit(x, y, batch_size=8, epochs=4, verbose=0, callbacks=callbacks)
except BaseException as error:
    print("swallowed", type(error).__name__)
AFTER
print(model.layers[-1].compute_dtype)
json.dump(
    [int(model.optimizer.iterations.numpy()), float(model.optimizer.learning_rate.numpy())],
    open("result.json", "w"),
)
"""

LAYER = "ranker/scores"
ANOTHER_TRY = """
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.001), "mse")
model.fit(x, y, batch_size=8, epochs=1, verbose=0)
"""


@pytest.fixture
def attempts(tmp_path: Path, zygote: Zygote) -> Attempts:
    """A run with a snapshot after every step."""
    options = {"snapshot_every_steps": 1, "snapshots_kept": 5, "watch_loss": True}
    return Attempts(tmp_path / "run", options, zygote=zygote)


def script(attempts: Attempts, after: str = "") -> Path:
    """The script; ``after``: what it does when ``fit`` is over."""
    return attempts.script(SCRIPT.replace("AFTER", after))


def result(attempts: Attempts) -> list[float]:
    """Steps and learning rate at the script's end."""
    found: list[float] = json.loads((attempts.directory / "result.json").read_text())
    return found


def test_lost_weights_end_the_attempt_and_the_next_goes_round(
    attempts: Attempts,
) -> None:
    """With a crash report and the steps between which it happened; an ``except`` of
    the script cannot call it finished. The next goes on from before the place, in 16
    bits, without these batches, at half the rate, as it is told."""
    lost = attempts.run(script(attempts), "10", "nan", "0.01")
    assert lost.code == 1
    assert not (attempts.directory / "result.json").exists()
    (record,) = lost.of(RecordKind.NON_FINITE)
    assert record["last_finite_step"] == 10
    assert record["step"] == 11
    assert record["because"] == (
        "the loss became NaN at step 11; the weights "
        f"{LAYER}/kernel are NaN or infinite as well"
    )
    assert (lost.page.loss, lost.page.loss_step) == (None, 11)  # NaN
    assert lost.crash.exception == "trainwarden.NonFiniteLoss"
    assert lost.crash.in_fit
    assert record["because"] in lost.err
    assert not lost.of(RecordKind.FINISHED)
    around = attempts.run(
        script(attempts), "999", "nan", "0.01",
        restore_before_step=10, skip=(9, 14), rate_factor=0.5, precision="mixed_bfloat16",
    )  # fmt: skip
    assert around.code == 0, around.err
    (restored,) = around.of(RecordKind.RESTORED)
    assert restored["step"] == 9
    assert list((attempts.snapshots / "abandoned").iterdir())
    assert result(attempts) == [32 - 5, pytest.approx(0.005)]
    assert around.page.step == around.page.loss_step == 32
    assert "bfloat16" in around.out
    told = [record["sentence"] for record in around.of(RecordKind.NOTICE)]
    assert sum("are skipped: the loss" in sentence for sentence in told) == 1
    assert sum("learning rate was lowered" in sentence for sentence in told) == 1


@pytest.mark.slow
def test_from_the_beginning_and_without_the_watch(attempts: Attempts) -> None:
    """Where no snapshot is early enough, batches can be passed over too; and a person
    may want to see what becomes of a lost loss."""
    outcome = attempts.run(
        script(attempts), "10", "inf", "0.01",
        restore_before_step=1, skip=(0, 3), watch_loss=False,
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert result(attempts)[0] == 29


def test_a_bad_loss_with_good_weights_goes_on(attempts: Attempts) -> None:
    """One batch may overflow and be left out: the mean of the epoch shows it, and
    nothing is lost."""
    text = (
        SCRIPT.replace("AFTER", "")
        .replace("y = x.sum", "x[20] = 1e30; y = x.sum")
        .replace('"mse")', '"mse")\nmodel.optimizer.apply = lambda *a, **k: None')
    )
    outcome = attempts.run(attempts.script(text), "999", "nan", "0.01")
    told = [record["sentence"] for record in outcome.of(RecordKind.NOTICE)]
    assert any("but all weights are finite" in sentence for sentence in told), (
        outcome.err
    )
    (record,) = outcome.of(RecordKind.NON_FINITE)
    assert "3 epochs in a row" in record["because"]


def test_terminate_on_nan_lets_the_script_end_but_not_finish(
    attempts: Attempts,
) -> None:
    """Its fit ends and the script goes on to its end, as it was written; as nothing
    came of the model by then, the run has not finished, and the loss is why. Killed
    after that fit, it is no other for the attempt that is given the fit back."""
    leaving = script(attempts, "import os\nif 'leave' in sys.argv: os._exit(9)")
    arguments = ("10", "nan", "0.01", "terminate")
    left = attempts.run(leaving, *arguments, "leave")
    assert (left.code, left.of(RecordKind.NON_FINITE)) == (9, [])
    for outcome in (
        attempts.run(leaving, *arguments),
        attempts.run(leaving, *arguments, restore_before_step=10),
    ):
        assert outcome.code == 1, outcome.err
        assert result(attempts)[0] == 11
        (record,) = outcome.of(RecordKind.NON_FINITE)
        assert (record["last_finite_step"], record["step"]) == (10, 11)
        assert "at the end of the script" in record["because"]
        assert "TerminateOnNaN" in outcome.err
        assert outcome.crash.exception == "trainwarden.NonFiniteLoss"
        assert not outcome.of(RecordKind.FINISHED)


@pytest.mark.slow
def test_a_lost_model_that_was_dropped_is_lost_all_the_same(attempts: Attempts) -> None:
    """A script whose ``command_group`` has returned has no model any more, and no other either."""
    dropped = """
import gc
model, callbacks = keras.models.clone_model(model), None
model.compile("sgd", "mse")
gc.collect()
"""
    outcome = attempts.run(script(attempts, dropped), "10", "nan", "0.01", "terminate")
    assert outcome.code == 1, outcome.err
    assert len(outcome.of(RecordKind.NON_FINITE)) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "after",
    [
        "model.set_weights(good)",
        ANOTHER_TRY,
    ],
    ids=["good weights", "another try"],
)
def test_who_stops_by_himself_is_left_alone(attempts: Attempts, after: str) -> None:
    """A script that makes something of it, with the weights of before or by training
    once more, has finished."""
    outcome = attempts.run(script(attempts, after), "10", "nan", "0.01", "terminate")
    assert outcome.code == 0, outcome.err
    assert not outcome.of(RecordKind.NON_FINITE)
    assert outcome.of(RecordKind.FINISHED)
    told = [record["sentence"] for record in outcome.of(RecordKind.NOTICE)]
    assert sum("TerminateOnNaN ended fit" in sentence for sentence in told) == 1


@pytest.mark.slow
def test_terminate_on_nan_that_raises(attempts: Attempts) -> None:
    """Keras may raise instead: then that exception is reported, and the lost loss with
    it; who catches it, and leaves it at that, has not finished either."""
    raising = SCRIPT.replace("TerminateOnNaN()", "TerminateOnNaN(raise_error=True)")
    path = attempts.script(raising.replace("AFTER", ""))
    caught = attempts.run(path, "10", "nan", "0.01", "terminate")
    assert (caught.code, len(caught.of(RecordKind.NON_FINITE))) == (1, 1), caught.err
    assert "swallowed RuntimeError" in caught.out
    path = attempts.script(raising.replace("AFTER", "raise SystemExit(3)"))
    left = attempts.run(path, "10", "nan", "0.01", "terminate", restore=False)
    assert (left.code, len(left.of(RecordKind.NON_FINITE))) == (3, 1), left.err
    fatal = raising.replace("AFTER", "").replace("    print(", "    raise; print(")
    path = attempts.script(fatal)
    died = attempts.run(path, "10", "nan", "0.01", "terminate", restore=False)
    assert (died.code, len(died.of(RecordKind.NON_FINITE))) == (1, 1), died.err
    assert died.crash.exception == "RuntimeError"
    assert "NaN or Inf loss" in died.crash.message
