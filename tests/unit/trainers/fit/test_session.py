"""``trainers.session`` without a supervisor, and what it does not take.

(Under one it is killed by a row of ``make certify``, which the short version runs too.)
"""

import signal
from pathlib import Path

import numpy as np
import pytest

from supervisor.wire.event_file import RecordKind
from tests.support.attempts import Attempts, read_result
from tests.support.zygote import Zygote
from trainers.fit import custom_loop
from trainers.session import session

SCRIPT = """
import json, os, signal, sys
import numpy as np
import tensorflow as tf
from trainers.process import attempt_reporting as attempt
from trainers.session import session

x = np.arange(24, dtype="float32")
shuffled = tf.data.Dataset.from_tensor_slices(x).shuffle(24, seed=3)
seen = []
with session(seen=seen) as run:
    for epoch in run.epochs(3):
        data = shuffled.batch(4)
        if sys.argv[1] == "unlike" and epoch == 1:
            data = shuffled.take(16).batch(4)
        for batch in run.batches(data):
            seen.append(batch.numpy().tolist())
            if os.environ.get("DIE") == str(len(seen)):
                attempt.current().wait_for_saver()
                os.kill(os.getpid(), signal.SIGKILL)
json.dump(seen, open("seen.json", "w"))
"""


def test_without_a_supervisor_it_only_iterates() -> None:
    """Every epoch and batch, with their numbers; what is kept is an ordinary dict."""
    seen: list[tuple[int, int, str]] = []
    with session(losses=[], rng=np.random.default_rng(1)) as run:
        for step, batch in run.steps(["a", "b"], epochs=2):
            run.log(loss=1.0)
            seen.append((run.epoch, step, batch))
        run.kept["best"] = 3
        for epoch in run.epochs(1):
            assert epoch == 0
            assert list(run.batches(["c"])) == ["c"]
        assert (run.step, run.kept) == (5, {"best": 3})
    assert seen == [(0, 0, "a"), (0, 1, "b"), (1, 2, "a"), (1, 3, "b")]


def test_a_batch_is_one_slice_without_a_supervisor() -> None:
    """The share of the only slice is 1."""
    with session() as run:
        assert list(run.slices("x", "y")) == [(("x", "y"), 1.0)]


@pytest.mark.parametrize("value", [1, "text", (1, 2), None])
def test_values_that_cannot_be_given_back_in_place_are_not_taken(value: object) -> None:
    """The sentence names them, and what to do."""
    with pytest.raises(TypeError, match=r"best is a \w+, .*run\.kept"):
        session(best=value)


def test_batches_from_python_are_drawn_as_they_are() -> None:
    """From their beginning, and in the middle of a pass."""
    source = custom_loop.source_of([(1, 2), (3, 4), (5, 6)])
    assert list(source.begin()) == [(1, 2), (3, 4), (5, 6)]
    assert list(source.resume(begun=1, drawn=2)) == [(5, 6)]


def test_a_pipeline_that_each_epoch_makes_anew_of_one_shuffle(
    tmp_path: Path, zygote: Zygote
) -> None:
    """The shuffle counts how often it was begun, whichever pipeline is made of it: the
    order of each epoch is another one, and after a kill the same as without."""
    whole = Attempts(tmp_path / "whole", zygote=zygote)
    assert whole.run(whole.script(SCRIPT), "alike", plain=True).code == 0
    torn = Attempts(tmp_path / "torn", {"snapshot_every_steps": 2}, zygote=zygote)
    script = torn.script(SCRIPT)
    for place in ("9", "15"):
        killed = torn.run(script, "alike", environment={"DIE": place})
        assert killed.code == -signal.SIGKILL
    last = torn.run(script, "alike")
    assert last.code == 0, last.err
    assert [one["step"] for one in last.of(RecordKind.RESTORED)] == [14]
    expected = read_result(whole.directory / "seen.json")
    assert expected[:6] != expected[6:12]
    assert read_result(torn.directory / "seen.json") == expected


def test_pipelines_of_one_shuffle_that_are_not_made_alike(
    tmp_path: Path, zygote: Zygote
) -> None:
    """How often each of them began it is not known: no bits are promised from there on."""
    attempts = Attempts(tmp_path, zygote=zygote)
    done = attempts.run(attempts.script(SCRIPT), "unlike")
    assert done.code == 0, done.err
    told = [one["sentence"] for one in done.of(RecordKind.PROMISE) if not one["bits"]]
    assert told == [custom_loop.UNLIKE]
