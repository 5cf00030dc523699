"""A run does not go on with other data unless it is told to."""

from pathlib import Path

import pytest

from supervisor.wire.event_file import RecordKind
from supervisor.wire.page import Phase
from supervisor.wire.reasons import RefusalReason
from tests.support.attempts import Attempts
from tests.support.zygote import Zygote
from trainers.data.data_fingerprint import difference

SCRIPT = """
import glob, os, time
import numpy as np, keras

keras.utils.set_random_seed(1)
x = np.arange(256, dtype="float32").reshape(64, 4) / 256
if os.environ.get("CHANGED"):
    x[0, 0] += 1
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")

class Die(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if os.environ.get("DIE"):
            while not glob.glob("snapshots/*6-*[0-9]"):
                time.sleep(0.01)
            os._exit(9)

model.fit(x, x[:, :1], batch_size=8, epochs=2, verbose=0, callbacks=[Die()])
"""


def test_changed_data_are_refused_and_accepted_on_request(
    tmp_path: Path, zygote: Zygote
) -> None:
    """One value of one sample differs: refused with 78 before training, and where that
    is accepted, told. So is, once, that what is needed takes more than the quota."""
    attempts = Attempts(tmp_path, {"snapshot_every_steps": 3}, zygote=zygote)
    script = attempts.script(SCRIPT)
    assert attempts.run(script, environment={"DIE": "1"}).code == 9
    refused = attempts.run(script, environment={"CHANGED": "1"})
    assert refused.code == 78
    (told,) = refused.of(RecordKind.REFUSED)
    assert told["reason"] == RefusalReason.DATA_CHANGED
    sentence = told["sentence"]
    assert "not those of the snapshot" in sentence
    assert "--accept-changes" in sentence
    assert sentence in refused.err
    accepted = attempts.run(
        script,
        environment={"CHANGED": "1"},
        accept_changes=True,
        snapshot_quota_bytes=1,
    )
    assert accepted.code == 0, accepted.err
    notices = [fields["sentence"] for fields in accepted.of(RecordKind.NOTICE)]
    assert any("not those of the snapshot" in sentence for sentence in notices)
    assert len([one for one in notices if "more than the quota" in one]) == 1
    assert accepted.of(RecordKind.RESTORED)[0]["step"] == 6
    # Steps 7 and 8 were done before; the page of the first attempt says so.
    assert accepted.page.phase_seconds[Phase.REPLAYING] > 0
    assert accepted.page.phase_seconds[Phase.TRAINING] > 0


PIPELINE = SCRIPT.replace(
    "model.fit(x, x[:, :1], batch_size=8,",
    """import tensorflow as tf
names = tf.data.Dataset.from_tensor_slices(["a"] * 63 + [os.environ.get("NAME", "b")])
data = tf.data.Dataset.from_tensor_slices((x, x[:, :1]))
data = tf.data.Dataset.zip(data, names).map(lambda pair, name: pair)
model.fit(data.shuffle(64).batch(8).prefetch(2),""",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "code"), [({"CHANGED": "1"}, 78), ({"NAME": "c"}, 0)], ids=str
)
def test_other_values_behind_a_pipeline_are_seen(
    tmp_path: Path, zygote: Zygote, changed: dict[str, str], code: int
) -> None:
    """Of the tensors of numbers that tf.data was made of: shuffled, zipped and batched as
    they are. Texts may be the names of files, which lie elsewhere on another machine. The
    same values go on."""
    attempts = Attempts(tmp_path, {"snapshot_every_steps": 3}, zygote=zygote)
    script = attempts.script(PIPELINE)
    assert attempts.run(script, environment={"DIE": "1"}).code == 9
    refused = attempts.run(script, environment=changed)
    assert refused.code == code
    for told in refused.of(RecordKind.REFUSED):
        assert told["reason"] == RefusalReason.DATA_CHANGED
        assert "the tensors that the pipeline is made of" in told["sentence"]
    assert attempts.run(script).code == 0


def test_snapshots_without_the_tensors_are_none_of_other_data() -> None:
    """An upgrade in the middle of a run is no change of its data."""
    before = {"kind": "tf.data", "elements": "x", "count": 3}
    assert difference(before, {**before, "tensors": ["a"]}) is None
    other = difference({**before, "tensors": ["b"]}, {**before, "tensors": ["a"]})
    assert other is not None
    assert other.endswith("have other values (tensor 1 of 1)")


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (["aa", "b2"], " (array 2 [9 x 1 int8] of 2)"),
        (["a2", "b2"], " (arrays 1 [9 x 4 float32], 2 [9 x 1 int8] of 2)"),
        (["aa"], ""),
        (None, ""),
    ],
)
def test_arrays_that_differ_are_named_not_their_hashes(
    rows: list[str] | None, told: str
) -> None:
    """By their place, shape and type; nothing more where the two are no pairs."""
    form = {"shapes": [["9", "4"], ["9", "1"]], "dtypes": ["float32", "int8"]}
    before = {**form, "rows": ["aa", "bb"]}
    found = difference(before, {**form, "rows": rows})
    assert found == f"samples have other values{told}"
