"""Each place where the training side refuses names its reason, in a real process.

Those of changed data, modules and batches are in ``test_data_changed``,
``test_kept_modules`` and ``test_fit_match``.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.diagnose import diagnose
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.host.telemetry.attempt_view import AttemptView, fold
from supervisor.wire.event_file import RecordKind
from supervisor.wire.messages.directive import EXIT_REFUSED
from supervisor.wire.reasons import RefusalReason, SizeSource
from tests.support.attempts import AttemptOutcome, Attempts
from tests.support.version_environments import environment
from tests.support.zygote import Zygote
from trainers.process.environment import user_cache


def reason_of(outcome: AttemptOutcome) -> RefusalReason:
    """Why it was refused; it ended before training, and said why to both."""
    assert outcome.code == EXIT_REFUSED, outcome.err
    (refused,) = outcome.of(RecordKind.REFUSED)
    assert refused["sentence"] in outcome.err
    return RefusalReason(refused["reason"])


def cause_of(outcome: AttemptOutcome) -> Cause:
    """What the supervisor makes of its event file."""
    view = fold(AttemptView(), outcome.records)
    return diagnose(Evidence(exit=None, refused=view.refused)).cause


FIT = """
import numpy as np, keras
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
x = np.zeros((8, 4), "float32")
model.fit(x, x[:, :1], batch_size=8, verbose=0)
"""


@pytest.mark.slow
def test_a_version_that_is_not_supported(tmp_path: Path) -> None:
    """Another Keras than those that were tried, and its self-test fails."""
    found_first = environment(tmp_path, broken=True, keras="9.1.0")
    attempts = Attempts(tmp_path)
    outcome = attempts.run(
        attempts.script("import keras"),
        environment={
            "PYTHONPATH": str(found_first),
            user_cache.CACHE: str(tmp_path / "cache"),
        },
    )
    assert reason_of(outcome) is RefusalReason.VERSIONS
    assert cause_of(outcome) is Cause.VERSION_MISMATCH


def test_a_keras_that_is_another_one_inside(tmp_path: Path, zygote: Zygote) -> None:
    """Somebody patched it: its version tells nothing."""
    attempts = Attempts(tmp_path, zygote=zygote)
    patched = """
import keras
from keras.src.trainers.epoch_iterator import EpochIterator
del EpochIterator._interrupted_warning
"""
    outcome = attempts.run(attempts.script(patched + FIT))
    assert reason_of(outcome) is RefusalReason.INTERNALS
    assert cause_of(outcome) is Cause.VERSION_MISMATCH


def test_snapshots_that_cannot_be_used(tmp_path: Path, zygote: Zygote) -> None:
    """Digits in the path say nothing of versions."""
    place = tmp_path / "data" / "v2.0"
    place.parent.mkdir()
    place.write_text("a file where a directory should be")
    options = {"snapshot_directory": str(place / "snapshots")}
    attempts = Attempts(tmp_path, options, zygote=zygote)
    outcome = attempts.run(attempts.script(FIT))
    assert "/v2.0/" in outcome.err
    assert reason_of(outcome) is RefusalReason.SNAPSHOTS_UNUSABLE
    assert cause_of(outcome) is Cause.USER_ERROR


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A real file system with room for no file but its own root."""
    place = tmp_path / "full"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "nr_inodes=1", "tmpfs", str(place)]
    if os.geteuid() or subprocess.run(mount, check=False).returncode:
        pytest.skip("a file system can be mounted by root alone")
    yield place
    leave = ["umount", "--lazy", str(place)]
    subprocess.run(leave, check=True)


def test_a_disk_without_room_for_snapshots(
    tmp_path: Path, full: Path, zygote: Zygote
) -> None:
    """It is no error of the script's."""
    options = {"snapshot_directory": str(full / "snapshots")}
    attempts = Attempts(tmp_path, options, zygote=zygote)
    outcome = attempts.run(attempts.script(FIT))
    assert reason_of(outcome) is RefusalReason.NO_ROOM
    assert cause_of(outcome) is Cause.DISK_FULL


TWICE = """
import glob, os, time
import numpy as np, keras

width = int(os.environ.get("WIDTH", "3"))
x = np.zeros((8, 4), "float32")
for fit in range(2):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(width)])
    model.compile("sgd", "mse")
    model.fit(x, np.zeros((8, width)), batch_size=4, verbose=0)
    while not glob.glob("snapshots/*2-*[0-9]"):
        time.sleep(0.01)
    if "WIDTH" not in os.environ:
        os._exit(9)
"""


def test_another_model_than_that_of_a_fit_that_is_over(
    tmp_path: Path, zygote: Zygote
) -> None:
    """Its end is given back, not trained again."""
    attempts = Attempts(tmp_path, {"snapshot_every_steps": 1}, zygote=zygote)
    script = attempts.script(TWICE)
    assert attempts.run(script).code == 9
    outcome = attempts.run(script, environment={"WIDTH": "5"})
    assert reason_of(outcome) is RefusalReason.MODEL_CHANGED


LOOP = """
import glob, os, time
import tensorflow as tf
from trainers.session import session

weights = tf.Variable(tf.zeros(int(os.environ.get("WIDTH", "3"))))
with session(weights=weights) as run:
    for _ in run.steps(range(2), epochs=1):
        weights.assign_add(tf.ones_like(weights))
    while not glob.glob("snapshots/*2-*[0-9]"):
        time.sleep(0.01)
    if "WIDTH" not in os.environ:
        os._exit(9)
"""


def test_another_state_than_that_of_a_loop_that_is_over(
    tmp_path: Path, zygote: Zygote
) -> None:
    """A loop of one's own has no model to name."""
    attempts = Attempts(tmp_path, {"snapshot_every_steps": 1}, zygote=zygote)
    script = attempts.script(LOOP)
    first = attempts.run(script)
    assert first.code == 9, first.err
    outcome = attempts.run(script, environment={"WIDTH": "5"})
    assert reason_of(outcome) is RefusalReason.STATE_CHANGED


SLICED = """
import numpy as np, keras
model = keras.Sequential([
    keras.Input((4,)), keras.layers.BatchNormalization(), keras.layers.Dense(1),
])
model.compile("sgd", "mse")
x = np.zeros((64, 4), "float32")
model.fit(x, x[:, :1], batch_size=32, epochs=20, verbose=0)
"""


def test_slices_that_may_not_deviate(tmp_path: Path, zygote: Zygote) -> None:
    """A BatchNormalization would see slices, and the spec forbids that."""
    options = {"slice_size": 8, "allow_inexact": False}
    attempts = Attempts(tmp_path, options, zygote=zygote)
    outcome = attempts.run(attempts.script(SLICED))
    assert reason_of(outcome) is RefusalReason.INEXACT


def test_a_batch_that_does_not_fit_and_cannot_be_sliced(
    tmp_path: Path, zygote: Zygote
) -> None:
    """A ``train_step`` of the script's own: which failed once, and never trained."""
    own = SLICED.replace("keras.Sequential", "Own").replace(
        "model = ", "class Own(keras.Sequential):\n"
        "    def train_step(self, data):\n"
        "        return super().train_step(data)\n\nmodel = ", 1
    )  # fmt: skip
    options = {"calibrate": True, "slice_ceiling": 32}
    attempts = Attempts(tmp_path, options, zygote=zygote)
    outcome = attempts.run(attempts.script(own))
    assert reason_of(outcome) is RefusalReason.MEMORY
    assert cause_of(outcome) is Cause.DEVICE_OOM


@pytest.mark.slow
def test_a_size_names_where_it_comes_from(tmp_path: Path) -> None:
    """Asked for; or tried, until one is settled; or half, where nothing is known."""
    attempts = Attempts(tmp_path, {"restore": False})
    script = attempts.script(SLICED)
    asked = sources(attempts.run(script, slice_size=8))
    assert asked == [SizeSource.ASKED]
    half = sources(attempts.run(script, calibrate=True, slice_ceiling=32))
    assert half == [SizeSource.HALVED]
    allocator = {
        "TF_CPU_ALLOCATOR_USE_BFC": "1",
        "TF_CPU_BFC_MEM_LIMIT_IN_MB": "64",
    }
    limit = {"memory_limit_bytes": 64 * 2**20}
    climbed = sources(
        attempts.run(script, calibrate=True, environment=allocator, **limit)
    )
    assert climbed == [SizeSource.TRIAL] * (len(climbed) - 1) + [SizeSource.MEASURED]
    assert len(climbed) > 1


def sources(outcome: AttemptOutcome) -> list[SizeSource]:
    """Of the sizes that it used, in order."""
    assert outcome.code == 0, outcome.err
    return [SizeSource(one["source"]) for one in outcome.of(RecordKind.MICROBATCH)]
