"""The device that training computes on: another one is told, and a GPU that is gone is not
taken for a slow one."""

from pathlib import Path
from typing import Any

import pytest

from supervisor.wire.event_file import RecordKind
from supervisor.wire.messages.directive import EXIT_REFUSED
from supervisor.wire.reasons import RefusalReason
from tests.support.attempts import AttemptOutcome, Attempts
from tests.support.zygote import Zygote
from trainers.backends.computing_device import (
    CORES,
    ComputingDevice,
    another,
    gone,
    is_without_gpu,
    of_gpu,
    of_processor,
    this_processor,
)

XEON = """processor : 0
model name : Xeon A
flags : fpu sse2 avx avx2 ibrs

processor : 1
model name : Xeon B
flags : sse2
"""
ARM = """processor : 0
Features : fp asimd crc32
CPU part : 0xd40
"""
HERE = of_processor(XEON, cores=8)
H100 = of_gpu("H100")


def test_what_decides_the_arithmetic_of_a_processor() -> None:
    """Its model, its cores and its vector instructions; not what updates bring."""
    assert (HERE.kind, HERE.model) == ("cpu", "Xeon A, 8 cores")
    assert HERE.features == ("avx", "avx2", "sse2")
    assert of_processor(XEON.replace(" ibrs", ""), cores=8) == HERE
    arm = of_processor(ARM, cores=1)
    assert (arm.model, arm.features) == ("0xd40, 1 core", ("asimd",))
    assert of_processor("", cores=2).model == "a processor, 2 cores"
    assert this_processor().model.endswith((f", {CORES} cores", ", 1 core"))


@pytest.mark.parametrize(
    ("then", "now", "part"),
    [
        (HERE, HERE, None),
        (H100, of_gpu("H100"), None),
        (None, H100, None),  # an older snapshot
        (H100, of_gpu("A100"), "on H100 so far, and is on A100 now"),
        (HERE, H100, "on Xeon A, 8 cores so far, and is on H100 now"),
        (HERE, of_processor(XEON, cores=4), "is on Xeon A, 4 cores now"),
        (
            HERE,
            of_processor(XEON.replace("avx2", "avx512f"), cores=8),
            "is on Xeon A, 8 cores with other vector instructions now",
        ),
    ],
)
def test_another_device(
    then: ComputingDevice | None, now: ComputingDevice, part: str | None
) -> None:
    """It is told as what it was and what it is; the same one is not."""
    told = another(None if then is None else then.to_json(), now)
    assert told is None if part is None else part in str(told)


def test_a_gpu_that_is_gone() -> None:
    """Only where a GPU was, and none is."""
    assert "on H100 so far" in str(gone(H100.to_json(), HERE))
    assert gone(H100.to_json(), H100) is None
    assert gone(HERE.to_json(), HERE) is None
    assert gone(None, HERE) is None


@pytest.mark.parametrize(
    ("environment", "without"),
    [
        ({}, False),
        ({"CUDA_VISIBLE_DEVICES": "0"}, False),
        ({"CUDA_VISIBLE_DEVICES": ""}, True),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, True),
        ({"JAX_PLATFORMS": "cpu"}, True),
        ({"JAX_PLATFORMS": "cuda,cpu"}, False),
        ({"JAX_PLATFORM_NAME": "CPU"}, True),
        ({"KERAS_TORCH_DEVICE": "cpu"}, True),
    ],
)
def test_who_wants_no_gpu(environment: dict[str, str], *, without: bool) -> None:
    """By the variables that frameworks read."""
    assert is_without_gpu(environment) is without


SCRIPT = """
import hashlib, os, signal
import numpy as np
import keras
from trainers.backends import computing_device
from trainers.backends.tensorflow import fit_compat
from trainers.process import attempt_reporting as attempt

here = os.environ.get("HERE")
if here:  # no GPU is needed to lose one
    fit_compat.computing_device = lambda: computing_device.of_gpu(here)

class Trouble(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 3 and "DIE" in os.environ:
            attempt.current().wait_for_saver()
            os.kill(os.getpid(), signal.SIGKILL)

keras.utils.set_random_seed(7)
x = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, x.sum(1), batch_size=8, epochs=2, verbose=0, callbacks=[Trouble()])
total = b"".join(one.tobytes() for one in model.get_weights())
print(hashlib.sha256(total).hexdigest())
"""


def run(attempts: Attempts, **environment: str) -> AttemptOutcome:
    """The next attempt."""
    return attempts.run(attempts.script(SCRIPT), environment=environment)


def sentences(outcome: AttemptOutcome) -> list[Any]:
    """What was told of the promise."""
    return [fields["sentence"] for fields in outcome.of(RecordKind.PROMISE)]


@pytest.mark.slow
def test_a_run_does_not_go_on_without_its_gpu(tmp_path: Path, zygote: Zygote) -> None:
    """It is refused before anything is changed; once the GPU is there again it goes on to
    the same bits, and who asks for the CPU gets it, without the promise."""
    whole = run(Attempts(tmp_path / "whole", zygote=zygote), HERE="H100")
    options = {"snapshot_every_steps": 2}
    torn = Attempts(tmp_path / "torn", options, zygote=zygote)
    assert run(torn, HERE="H100", DIE="1").code != 0
    refused = run(torn)
    assert refused.code == EXIT_REFUSED
    (said,) = refused.of(RecordKind.REFUSED)
    assert said["reason"] == RefusalReason.DEVICE_GONE
    assert sentences(refused) == []  # nothing is trained on the CPU
    assert (
        "trained on H100 so far, and the framework sees no GPU now" in said["sentence"]
    )
    again = run(torn, HERE="H100", DIE="1")
    assert again.code != 0
    assert sentences(again) == ["exact to the bit"]
    last = run(torn, HERE="H100")
    assert (last.code, last.out) == (0, whole.out), last.err[-2000:]


@pytest.mark.slow
def test_another_gpu_or_the_processor_by_ones_own_wish(
    tmp_path: Path, zygote: Zygote
) -> None:
    """It goes on, and bits are promised no more."""
    options = {"snapshot_every_steps": 2}
    torn = Attempts(tmp_path, options, zygote=zygote)
    assert run(torn, HERE="H100", DIE="1").code != 0
    other = run(torn, HERE="A100", DIE="1")
    assert [one for one in sentences(other) if "H100 so far, and is on A100" in one]
    own = run(torn, CUDA_VISIBLE_DEVICES="-1")
    assert own.code == 0, own.err[-2000:]
    assert [one for one in sentences(own) if "so far, and is on" in one]
