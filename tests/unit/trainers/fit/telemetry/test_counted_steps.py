"""Steps that come soon after a look are only counted; nothing that must be exact is late."""

import json
import signal
from pathlib import Path

import pytest

from supervisor.wire.messages.directive import EXIT_DRAINED
from supervisor.wire.page import read_page
from tests.support.attempts import Attempts, read_result
from tests.support.zygote import Zygote

SCRIPT = """
import json, sys
import keras, numpy as np
from supervisor.wire.page import read_page
from trainers.fit import fit_run
from trainers.process.attempt_reporting import current

fit_run.LOOK_SECONDS = float(sys.argv[1])
looks, shown, path = [], [], current().paths.page
look = fit_run.FitRun._look
def counted(run, batches):
    looks.append(run._session.step)
    return look(run, batches)
fit_run.FitRun._look = counted


class Shown(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        page = read_page(path)
        shown.append((page.step, page.step_in_epoch, page.samples))

    def on_train_batch_end(self, batch, logs=None):
        if len(shown) in map(int, sys.argv[2:]):
            self.model.make_train_function(force=True)


model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.ones((90, 2)), np.ones((90, 1)), batch_size=4, epochs=3, verbose=0,
          callbacks=[Shown()])
with open("seen.json", "w") as file:
    json.dump({"looks": looks, "shown": shown}, file)
"""
SEVERAL = """
import json
import keras, numpy as np, tensorflow as tf

def rows():
    for row in range(178):
        yield np.ones(2, "float32"), np.ones(1, "float32")

of = tf.TensorSpec((2,)), tf.TensorSpec((1,))
data = tf.data.Dataset.from_generator(rows, output_signature=of).batch(4)
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse", steps_per_execution=8)
model.fit(data, epochs=3, verbose=0)
with open("seen.json", "w") as file:
    json.dump(int(model.optimizer.iterations), file)
"""
CAUGHT = """
import keras, numpy as np
from trainers.fit import fit_run

fit_run.LOOK_SECONDS = 1e9


class Raises(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 17:
            raise ValueError("enough")


model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
for callbacks in ([Raises()], []):
    try:
        model.fit(np.ones((90, 2)), np.ones((90, 1)), batch_size=4, verbose=0,
                  callbacks=callbacks)
    except ValueError:
        pass
"""
NEVER = "1e9"
KILLED = """
import hashlib, json, os, signal, sys
import keras, numpy as np, tensorflow as tf
from trainers.fit import fit_run

fit_run.LOOK_SECONDS = fit_run.LOOK_SECONDS_SAVING = 0.02
looks, look = [], fit_run.FitRun._look
def looked(run, batches):
    looks.append(run._session.step)
    return look(run, batches)
fit_run.FitRun._look = looked


class Dies(keras.callbacks.Callback):
    count, rng = 0, np.random.default_rng(5)

    def on_train_batch_end(self, batch, logs=None):
        self.count += 1
        self.drawn = float(self.rng.normal()) + float(logs["loss"])
        if str(self.count) in sys.argv[1:]:
            os.kill(os.getpid(), signal.SIGKILL)


x = np.random.default_rng(1).normal(size=(2998, 8)).astype("float32")
data = (x, x.sum(axis=1, keepdims=True))
if "pipeline" in sys.argv:
    data = (tf.data.Dataset.from_tensor_slices(data).shuffle(500).batch(4),)
model = keras.Sequential([
    keras.Input((8,)), keras.layers.Dense(16, "relu"), keras.layers.Dropout(0.2),
    keras.layers.Dense(1),
])
model.compile("adam", "mse")
dies = Dies()
history = model.fit(*data, batch_size=None if "pipeline" in sys.argv else 4, epochs=3,
                    verbose=0, callbacks=[dies])
total = hashlib.sha256()
for one in [*model.variables, *model.optimizer.variables]:
    total.update(np.asarray(one).tobytes())
with open("end.json", "w") as file:
    json.dump({"state": total.hexdigest(), "history": history.history,
               "count": dies.count, "drawn": dies.drawn}, file)
print(json.dumps(looks))
"""


@pytest.fixture
def attempts(tmp_path: Path, zygote: Zygote) -> Attempts:
    """Of a run in a directory of its own, whose snapshots are never due."""
    made = Attempts(tmp_path / "run", zygote=zygote)
    made.options |= {"snapshot_every_seconds": 1e6}
    return made


def test_where_training_is_can_be_read_after_each_step(attempts: Attempts) -> None:
    """Step and samples, also of steps that nobody looks at; all of them are in the
    histogram, but for the first, which compiles."""
    outcome = attempts.run(attempts.script(SCRIPT), NEVER)
    assert outcome.code == 0, outcome.err
    seen = read_result(attempts.directory / "seen.json")
    # Four until the first figures are told, and each epoch's first.
    assert seen["looks"] == [1, 2, 3, 4, 24, 47]
    whole = [
        [step, step % 23, 90 * (step // 23) + 4 * (step % 23)] for step in range(69)
    ]
    whole[0] = [0, 0, 0]
    assert seen["shown"] == whole
    page = read_page(outcome.paths.page)
    assert page is not None
    assert (page.step, page.samples) == (69, 270)
    assert sum(page.step_counts) == 68


def test_an_epoch_that_ends_within_an_execution(attempts: Attempts) -> None:
    """Of data that do not say how many batches they have: Keras knows that from the second
    epoch on, but in whole executions."""
    outcome = attempts.run(attempts.script(SEVERAL))
    assert outcome.code == 0, outcome.err
    assert outcome.page.step == read_result(attempts.directory / "seen.json") == 3 * 45


def test_steps_before_an_exception_are_counted(attempts: Attempts) -> None:
    """Those since the last look, too, but for the one that a callback raised after."""
    outcome = attempts.run(attempts.script(CAUGHT))
    assert outcome.code == 0, outcome.err
    assert sum(outcome.page.step_counts) == 17 - 1 + 23 - 1


def test_a_train_function_that_is_made_anew_is_heard_of(attempts: Attempts) -> None:
    """By a callback, after steps that are only counted: the next ones are counted, too."""
    outcome = attempts.run(attempts.script(SCRIPT), NEVER, "10", "40")
    assert outcome.code == 0, outcome.err
    shown = read_result(attempts.directory / "seen.json")["shown"]
    assert [step for step, _, _ in shown] == list(range(69))


def test_steps_are_left_out_to_the_step(attempts: Attempts) -> None:
    """Until then each is looked at: those to leave out are not begun."""
    outcome = attempts.run(attempts.script(SCRIPT), NEVER, skip=(30, 35))
    assert outcome.code == 0, outcome.err
    seen = read_result(attempts.directory / "seen.json")
    steps = [step for step, _, _ in seen["shown"]]
    assert steps == [*range(30), *range(35, 69)]
    assert seen["looks"] == [*range(1, 31), 36, 47]


def test_an_end_that_is_asked_for_waits_for_no_look(attempts: Attempts) -> None:
    """The state is saved after the very step."""
    outcome = attempts.run(attempts.script(SCRIPT), NEVER, stop_at_step=17)
    assert outcome.code == EXIT_DRAINED, outcome.err
    (saved,) = attempts.snapshots.glob("*-*/manifest.json")
    assert json.loads(saved.read_text())["step"] == 17


@pytest.mark.parametrize("data", ["arrays", "pipeline"])
def test_a_run_that_was_killed_between_two_looks_ends_the_same(
    attempts: Attempts, tmp_path: Path, zygote: Zygote, data: str
) -> None:
    """Its snapshots are of steps that come after some that were only counted."""
    attempts.options |= {"snapshot_every_seconds": 0.05}
    script = attempts.script(KILLED)
    for step in (1201, 1877):
        outcome = attempts.run(script, data, str(step))
        assert outcome.code == -signal.SIGKILL, outcome.err
        page = read_page(outcome.paths.page)
        assert page is not None
        assert page.step == step - 1
    outcome = attempts.run(script, data)
    assert outcome.code == 0, outcome.err
    (restored,) = outcome.of("restored")
    assert restored["step"] > 1201
    looks = json.loads(outcome.out)
    assert len(looks) < (2250 - restored["step"]) / 2
    alone = Attempts(tmp_path / "alone", zygote=zygote)
    undisturbed = alone.run(alone.script(KILLED), data)
    assert undisturbed.code == 0, undisturbed.err
    seen, wanted = (one.directory / "end.json" for one in (attempts, alone))
    assert read_result(seen) == read_result(wanted)


def test_an_interval_in_steps_is_kept_to_the_step(attempts: Attempts) -> None:
    """Each step is looked at then."""
    attempts.options |= {"snapshot_every_steps": 9, "snapshot_every_seconds": None}
    outcome = attempts.run(attempts.script(SCRIPT), NEVER)
    assert outcome.code == 0, outcome.err
    looks = read_result(attempts.directory / "seen.json")["looks"]
    assert looks == list(range(1, 70))
    steps = {one["step"] for one in outcome.of("snapshot")}
    assert {54, 63, 69} <= steps
