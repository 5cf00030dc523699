"""Iterators of passes that are over: they go in a thread of their own."""

import threading
import weakref
from pathlib import Path

import tensorflow as tf

from tests.support.attempts import Attempts, read_result
from tests.support.zygote import Zygote
from trainers.backends.finished_iterators import FinishedIterators

PATIENCE = 60.0
SCRIPT = """
import gc, json, threading, weakref
import keras, numpy as np, tensorflow as tf

iterators = []
make = tf.data.Dataset.__iter__

def noted(self):
    found = make(self)
    iterators.append(weakref.ref(found))
    return found

class Look(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        tf.data.Dataset.__iter__ = noted
    def on_train_end(self, logs=None):
        tf.data.Dataset.__iter__ = make

keras.utils.set_random_seed(1)
x = np.random.default_rng(1).normal(size=(64, 4)).astype("float32")
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, x[:, :1], batch_size=16, epochs=3, verbose=0, callbacks=[Look()],
    validation_data=(x, x[:, :1]))
named = [one.name for one in threading.enumerate()]
end = threading.Event()
for _ in range(600):
    gc.collect()
    left = sum(one() is not None for one in iterators)
    if not left:
        break
    end.wait(0.1)
with open("result.json", "w") as file:
    json.dump([len(iterators), left, "trainwarden-iterators" in named], file)
"""


class SlowToGo:
    """Goes only once it may, as an iterator whose thread is asleep."""

    def __init__(self, may_go: threading.Event) -> None:
        self._may_go = may_go
        self.going, self.gone = threading.Event(), threading.Event()
        self.thread: list[str] = []
        # What is left of it to look at.
        self.seen = (self.going, self.gone, self.thread)

    def __del__(self) -> None:
        self.thread.append(threading.current_thread().name)
        self.going.set()
        self._may_go.wait(PATIENCE)
        self.gone.set()


def test_nobody_waits_for_one_that_is_slow_to_go() -> None:
    """It goes elsewhere, and what came after it goes, too."""
    finished, may_go = FinishedIterators(), threading.Event()
    things = [SlowToGo(may_go), SlowToGo(may_go)]
    seen = [one.seen for one in things]
    while things:
        finished.let_go(things.pop())  # would be waited for if it went here
    assert seen[1][0].wait(PATIENCE)
    assert not seen[0][1].is_set()
    may_go.set()
    assert all(gone.wait(PATIENCE) for _, gone, _ in seen)
    names = {name for _, _, thread in seen for name in thread}
    assert names == {"trainwarden-iterators"}


def test_the_end_of_a_fit_waits_for_them() -> None:
    """They hold its data. For what somebody still has nobody waits."""
    finished, may_go = FinishedIterators(), threading.Event()
    may_go.set()
    kept = SlowToGo(may_go)
    going = SlowToGo(may_go)
    gone = going.gone
    finished.let_go(kept)
    finished.let_go(going)
    del going
    finished.wait()
    assert gone.is_set()
    assert not kept.gone.is_set()


def test_what_somebody_still_has_stays() -> None:
    """Keras' loop has the old one until it gets the next."""
    finished, may_go = FinishedIterators(), threading.Event()
    may_go.set()
    kept = SlowToGo(may_go)
    finished.let_go(kept)
    for _ in range(2):  # the second is looked at after the first was
        other = SlowToGo(may_go)
        gone = other.gone
        finished.let_go(other)
        del other
        assert gone.wait(PATIENCE)
    assert not kept.gone.is_set()
    gone = kept.gone
    del kept
    assert gone.wait(PATIENCE)


def test_an_iterator_of_tensorflow_goes() -> None:
    """With all that it refers to."""
    iterator = iter(tf.data.Dataset.range(3).map(lambda i: i + 1).prefetch(2))
    assert [int(one) for one in iterator] == [1, 2, 3]
    gone = threading.Event()
    weakref.finalize(iterator, gone.set)
    FinishedIterators().let_go(iterator)
    del iterator
    assert gone.wait(PATIENCE)


def test_those_of_a_fit_are_let_go(tmp_path: Path, zygote: Zygote) -> None:
    """After each pass, those of validation too; none is kept."""
    attempts = Attempts(tmp_path, zygote=zygote)
    outcome = attempts.run(attempts.script(SCRIPT))
    assert outcome.code == 0, outcome.err
    made, left, by_thread = read_result(tmp_path / "result.json")
    assert made >= 6
    assert (left, by_thread) == (0, True)
