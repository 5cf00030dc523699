"""Loops of the script's own in real processes: recorded, resumed, or why not."""

import os
from pathlib import Path
from typing import Any

import pytest

from supervisor.wire.directive import EXIT_DRAINED
from supervisor.wire.event_file import RecordKind
from tests.support.attempts import Attempts, Outcome
from tests.support.zygote import Zygote

HEAD = """
import os, signal, sys, threading, time
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8), keras.layers.Dense(3)])
optimizer = keras.optimizers.Adam(0.01)
x = np.random.rand(40, 4).astype("float32")
y = np.random.rand(40, 3).astype("float32")

@tf.function
def step(a, b):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(a, training=True) - b) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss

def die(number):
    asked = os.environ.get("DIE", "")
    if asked.rstrip("t") == str(number):
        time.sleep(0.5)  # what is being saved is on disk then
        os.kill(os.getpid(), signal.SIGTERM if asked.endswith("t") else signal.SIGKILL)

losses = []
"""
LOOP = """
for number in range(30):
    here = slice(number % 5 * 8, number % 5 * 8 + 8)
    MORE
    losses.append(float(step(x[here], y[here])))
    die(number)
"""
END = """
print(losses, [w.tolist() for w in model.get_weights()], file=open("result", "w"))
"""


@pytest.fixture
def attempts(tmp_path: Path, zygote: Zygote) -> Attempts:
    """A snapshot at every fourth step."""
    options = {"snapshot_every_steps": 4, "prove": True, "rewind": (".",)}
    return Attempts(tmp_path, options, zygote=zygote)


def script(attempts: Attempts, more: str = "pass", loop: str = LOOP) -> Path:
    """With ``more`` before each step."""
    return attempts.script(HEAD + loop.replace("MORE", more) + END)


def run(attempts: Attempts, path: Path, die: str = "", **more: Any) -> Outcome:
    """The next attempt, killed at step ``die``, or drained (``9t``)."""
    environment = {"DIE": die} if die else {}
    return attempts.run(path, environment=environment, **more)


def result(attempts: Attempts) -> str:
    """What the script left."""
    return (attempts.directory / "result").read_text()


def told(outcome: Outcome) -> list[tuple[bool, str]]:
    """What was promised."""
    return [(one["bits"], one["sentence"]) for one in outcome.of(RecordKind.PROMISE)]


EXACT = (True, "exact to the bit")


def test_a_loop_is_resumed_to_the_bit(attempts: Attempts) -> None:
    """Killed twice, drained once: as by plain Python, and proved on the way."""
    path = script(attempts)
    run(attempts, path, plain=True)
    expected = result(attempts)
    first = run(attempts, path, "14")
    assert told(first) == [EXACT]
    assert first.page.snapshot_step == 12
    second = run(attempts, path, "22")
    (restored,) = second.of(RecordKind.RESTORED)
    assert restored["step"] == 12
    assert [one["result"] for one in second.of(RecordKind.PROOF)] == ["begun", "proved"]
    drained = run(attempts, path, "25t")
    assert drained.code == EXIT_DRAINED, drained.err
    assert drained.of(RecordKind.DRAINED)[0]["step"] == 26
    last = run(attempts, path)
    assert last.code == 0, last.err
    assert result(attempts) == expected
    assert last.page.step == 30


def test_it_is_told_what_is_done_instead_of_steps(attempts: Attempts) -> None:
    """The script runs from its top: nobody should take its output for new steps."""
    path = script(attempts)
    run(attempts, path, "14")
    sentences = [one["sentence"] for one in run(attempts, path).of(RecordKind.NOTICE)]
    assert any("are answered from the record" in one for one in sentences), sentences


GIVEN_UP = {
    "eager": ("tf.config.run_functions_eagerly(True)", "computed eagerly"),
    "tape": ("tape = tf.GradientTape(); tape.__enter__()", "a GradientTape is open"),
    "caught": (
        """
    try:
        number == 9 and step(x[:, :3], y)
    except ValueError:
        pass
""",
        "a call of a tf.function failed",
    ),
    "thread": (
        """
    if number == 9:
        looking = threading.Thread(target=lambda: float(optimizer.iterations))
        looking.start()
        looking.join()
""",
        "another thread",
    ),
    "called in a thread": (
        """
    if number == 9:
        other = threading.Thread(target=lambda: step(x[:8], y[:8]))
        other.start()
        other.join()
""",
        "another thread",
    ),
    "thread beside a step": (
        """
    if number == 9:
        other = threading.Thread(target=lambda: [float(step(x[:8], y[:8])) for _ in x])
        other.start()
    elif number == 29:
        other.join()
        losses.clear()  # which of them came first is nobody's
        model.set_weights([abs(w) * 0 for w in model.get_weights()])
        break
""",
        "another thread",
    ),
    "evaluate": (
        """
    if number == 9:
        model.compile("sgd", "mse")
        model.evaluate(x, y, callbacks=[keras.callbacks.Callback()], verbose=0)
""",
        "evaluate was given callbacks",
    ),
    "result": (
        """
    if number == 9:
        tf.function(lambda: tf.ragged.constant([[1.0], [1.0, 2.0]]))()
""",
        "RaggedTensor",
    ),
    "table": (
        """
    if number == 9:
        keys = tf.constant([1], tf.int64)
        table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0)
        tf.function(lambda: (table.insert(keys, keys), keys)[1])()
""",
        "LookupTableInsert",
    ),
    "large": (
        """
    if number == 9:
        large = tf.function(lambda: tf.random.stateless_uniform([4, 1 << 20], [1, 2]))
        for _ in range(18):
            np.asarray(large()).sum()
""",
        "too much",
    ),
}


@pytest.mark.parametrize("what", GIVEN_UP)
def test_what_cannot_be_recorded_is_told(attempts: Attempts, what: str) -> None:
    """Then, not after the crash; and the script ends as by plain Python."""
    more, because = GIVEN_UP[what]
    path = script(attempts, more)
    run(attempts, path, plain=True)
    expected = result(attempts)
    outcome = run(attempts, path)
    assert outcome.code == 0, outcome.err
    bits, sentence = told(outcome)[-1]
    assert not bits
    assert because in sentence
    assert "are watched and counted, but not saved" in sentence
    assert result(attempts) == expected


OTHER_WAYS = {
    "data": (
        "x[:] = np.frombuffer(os.urandom(40 * 4), 'uint8').reshape(40, 4)",
        "data",
    ),
    "call": (
        "if number > 2 and os.urandom(1)[0] % 2: tf.function(lambda: tf.constant(1))()",
        "called",
    ),
    "look": (
        "if number > 2 and os.urandom(1)[0] % 2: int(optimizer.iterations)",
        "was",
    ),
}


@pytest.mark.parametrize("way", OTHER_WAYS)
def test_a_replay_that_leaves_the_path_begins_anew(
    attempts: Attempts, way: str
) -> None:
    """What was answered cannot be computed any more: the process ends, and says so. The
    next computes everything, and saves nothing that would be left again."""
    more, because = OTHER_WAYS[way]
    path = script(attempts, more)
    run(attempts, path, "27")
    outcome = run(attempts, path)
    assert outcome.code == EXIT_DRAINED, outcome.err
    (proof,) = [one for one in outcome.of(RecordKind.PROOF) if one.get("ends")]
    assert "went another way" in proof["because"]
    assert because in proof["because"]
    last = run(attempts, path)
    assert last.code == 0, last.err
    assert not last.of(RecordKind.RESTORED)
    assert not told(last)[-1][0]
    assert last.page.step == 30


def test_a_script_that_ends_before_its_record_begins_anew(attempts: Attempts) -> None:
    """What it would leave behind was never computed."""
    more = "if 'SHORT' in os.environ and number > 2: break"
    path = attempts.script(HEAD + LOOP.replace("MORE", more))
    run(attempts, path, "14")
    outcome = attempts.run(path, environment={"SHORT": "1"})
    assert outcome.code == EXIT_DRAINED, outcome.err
    assert "it ended before" in str(outcome.of(RecordKind.PROOF))


def test_a_file_that_is_gone_is_not_taken_for_there(attempts: Attempts) -> None:
    """A large state is not written again in a replay: it has to lie there."""
    large = "model.add(keras.layers.Dense(200_000)); y = np.zeros((40, 1), 'float32')"
    saves = "if number == 3: model.save_weights('w.weights.h5')"
    path = attempts.script(HEAD + large + LOOP.replace("MORE", saves) + "print(losses)")
    run(attempts, path, "14")
    weights = attempts.directory / "w.weights.h5"
    os.utime(weights)
    later = run(attempts, path, "14")
    assert later.of(RecordKind.RESTORED)
    assert "w.weights.h5 was written again" in told(later)[-1][1]
    weights.unlink()
    outcome = run(attempts, path)
    assert outcome.code == EXIT_DRAINED, outcome.err
    assert "w.weights.h5 is gone" in str(outcome.of(RecordKind.PROOF))


def test_a_step_that_draws_is_resumed_without_a_promise(attempts: Attempts) -> None:
    """Stateful random operations: resumed, and said not to be exact before the kill."""
    draws = HEAD.replace("model(a, training=True)", "model(a + tf.random.normal([4]))")
    path = attempts.script(draws + LOOP.replace("MORE", "pass") + END)
    first = run(attempts, path, "14")
    assert not told(first)[0][0]
    second = run(attempts, path)
    assert second.code == 0, second.err
    assert second.of(RecordKind.RESTORED)[0]["step"] == 12
    assert not any(bits for bits, _ in told(second))
