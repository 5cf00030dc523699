"""Which draws of a script withdraw the promise, and by which sentence."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from supervisor.wire.event_file import RecordKind
from tests.support.attempts import Attempts
from tests.support.zygote import Zygote

CASES = """
import json, os, pickle, random, secrets, sys, tempfile, time, uuid
from datetime import datetime
import numpy as np
import numpy.random.bit_generator, numpy.random._mt19937
from trainers.process.script import run_entropy, unrepeatable_draws

noted = unrepeatable_draws.install(lambda: False)
entropy = run_entropy.install(5)
run_entropy.numpy_asks(entropy, numpy.random.bit_generator)
run_entropy.numpy_seeds(entropy, numpy.random._mt19937)

def seed_all(number):
    random.seed(number)
    np.random.seed(number)

def fresh():
    return datetime.now().microsecond

def of_system():
    os.urandom(4)
    os.getrandom(4)
    secrets.token_bytes(4)
    secrets.randbits(9)
    secrets.choice([1, 2])
    random.SystemRandom().random()

def by_clock():
    np.random.seed(int(time.time()))
    np.random.default_rng(int(time.time() * 1000))
    np.random.default_rng(np.int64(time.time()))
    np.random.default_rng(uuid.uuid4().int)
    np.random.SeedSequence(time.time_ns())
    np.random.RandomState(time.time_ns() // 1000 % 2**32)
    random.seed(time.time())
    random.Random(str(time.time()))
    np.random.seed(int(time.time()) % 100)
    random.seed(fresh())

def by_helper():
    seed_all(uuid.uuid4().int % 2**32)

class Keeps:
    source = os.urandom

def train(seed, run):
    random.seed(seed)

def repeated():
    train(42, f"run-{time.time()}")
    random.seed(10**5000)
    uuid.uuid4()
    tempfile.TemporaryDirectory().cleanup()
    time.time(), np.random.default_rng(), random.random(), np.random.rand()
    for number in (0, 42, 1234, 2024, 20240101, 123456789, int(sys.argv[1])):
        seed_all(number)
        np.random.default_rng(number)

def values():
    seed_all(5)
    generators = np.random, np.random.RandomState(5)
    drawn = [random.random(), random.Random(5).random(), np.random.default_rng(5).random()]
    return drawn + [one.rand() for one in generators]

found = {"values": values()}
for case in (repeated, of_system, by_clock, by_helper):
    before = len(noted.sentences)
    case()
    found[case.__name__] = noted.sentences[before:]
found["seeds"] = len(noted.seeds)
assert pickle.loads(pickle.dumps(os.urandom)) is os.urandom
assert len(Keeps().source(4)) == 4
print(json.dumps(found))
"""

SCRIPT = """
import glob, os, time
import numpy as np, keras

np.random.seed(int(os.environ["SEED"]))
if os.environ.get("URANDOM"):
    os.urandom(3)
x = np.ones((16, 3), "float32")
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")

class Die(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if os.environ.get("DIE") and batch == 3:
            while not glob.glob("snapshots/*2-*[0-9]"):
                time.sleep(0.01)
            os._exit(9)

model.fit(x, x[:, :1], batch_size=4, epochs=1, verbose=0, callbacks=[Die()])
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What was noted of each case, in a process of its own."""
    script = tmp_path_factory.mktemp("draws") / "train.py"
    script.write_text(CASES)
    path = str(Path(__file__).parents[5])
    ended = subprocess.run(
        [sys.executable, script, "7"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=True,
    )
    told: dict[str, Any] = json.loads(ended.stdout)
    return told


def lines_of(function: str) -> list[int]:
    """Those of its body, by their numbers."""
    lines = CASES.splitlines()
    first = lines.index(f"def {function}():") + 2
    return list(range(first, lines.index("", first) + 1))


def test_what_the_script_draws_from_the_system_is_named(found: dict[str, Any]) -> None:
    """Each with its place, and what may come of it."""
    said = found["of_system"]
    places = [f"train.py:{line} draws from " for line in lines_of("of_system")]
    assert [
        one[: len(place)] for one, place in zip(said, places, strict=True)
    ] == places
    assert all("no later attempt can draw again" in one for one in said)
    assert all("if training depends on it" in one for one in said)
    assert "os.urandom" in said[0]


def test_a_seed_of_the_clock_is_named(found: dict[str, Any]) -> None:
    """By what it looks like, or by the line that makes it."""
    said = found["by_clock"]
    places = [f"train.py:{line} seeds with " for line in lines_of("by_clock")]
    assert [
        one[: len(place)] for one, place in zip(said, places, strict=True)
    ] == places
    assert all("another number in each attempt" in one for one in said)


def test_a_helper_is_asked_where_it_has_its_seed_from(found: dict[str, Any]) -> None:
    """A uuid that is handed to it; both generators that it seeds."""
    assert len(found["by_helper"]) == 2
    assert all("another number in each attempt" in one for one in found["by_helper"])


def test_other_draws_are_not(found: dict[str, Any]) -> None:
    """Names, times, seeds that are written or given, and none at all; a seed gives what
    it gives without us, and those of the script are kept."""
    assert found["repeated"] == []
    plain = random.Random(5).random()  # noqa: S311  # what the script draws
    number, generated, legacy = (
        found["values"][0],
        found["values"][2],
        found["values"][3:],
    )
    assert number == found["values"][1] == plain
    assert generated == np.random.default_rng(5).random()
    assert legacy == [np.random.RandomState(5).rand()] * 2  # as above
    assert found["seeds"] >= 21


def test_both_withdraw_the_promise(tmp_path: Path, zygote: Zygote) -> None:
    """What the system gave, at the first ``fit`` and before any restart; and a seed that
    is another than that of the attempt before, which the same seed does not."""
    attempts = Attempts(tmp_path, {"snapshot_every_steps": 2}, zygote=zygote)
    script = attempts.script(SCRIPT)
    died = attempts.run(script, environment={"SEED": "7", "DIE": "1"})
    assert died.code == 9
    (given,) = died.of(RecordKind.PROMISE)
    assert given["bits"]
    other = attempts.run(script, environment={"SEED": "8", "URANDOM": "1"}, prove=False)
    assert other.code == 0, other.err
    assert other.of(RecordKind.RESTORED)
    seed, drawn = other.of(RecordKind.PROMISE)
    assert "sets another seed than the attempt" in seed["sentence"]
    assert "draws from os.urandom" in drawn["sentence"]
    assert not seed["bits"]
    assert not drawn["bits"]
