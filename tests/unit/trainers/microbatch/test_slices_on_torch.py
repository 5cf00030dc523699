"""k slices against one on PyTorch: the same steps, updates, logs and weights.

Processes of PyTorch's tell of the cases (``tests.support.torch_slices``).
"""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.support.sliced_models import BATCH, SIZE
from tests.support.zygote import TORCH
from trainers.backends.slices import deviations

pytestmark = pytest.mark.skipif(
    not TORCH.is_dir(),
    reason="make .venv/torch-backend installs PyTorch; it is not here",
)

CASES = {
    "everything": "exact",
    "class weights": "exact",
    "added sum": "exact",
    "two outputs": "exact",
    "two outputs, one summed": "two_pass",
    "convolutions": "exact",
    "sum": "exact",
    "weighted mean": "two_pass",
    "coupled loss": "two_pass",
    "mask": "two_pass",
    "embedding": "exact",
    "accumulating": "exact",
    "own loss": "two_pass",
    "whole metric": "exact",
    "temperature": "two_pass",
    "weight in a loss": "two_pass",
    "moving average in a loss": "two_pass",
    "padding later": "two_pass",
    "sum that is zero at first": "exact",
    "zeros under a root": "exact",
}
"""The mode of each; the last batch is a short one in all."""
DRAWS = "draws random numbers: slices draw others than a whole batch"
KEEPS = "keeps statistics of what it is given: it is given slices"


def told(which: str) -> dict[str, Any]:
    """What a process told of them, by case."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.torch_slices", which],
        env={
            **os.environ,
            "KERAS_BACKEND": "torch",
            "PYTHONPATH": str(TORCH),
            "TF_CPP_MIN_LOG_LEVEL": "3",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def alike() -> dict[str, Any]:
    """Models trained whole and in slices."""
    return told("alike")


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """The others."""
    return told("others")


@pytest.mark.parametrize("name", CASES)
def test_slices_change_nothing_on_torch(alike: dict[str, Any], name: str) -> None:
    """After an epoch in slices: weights, optimizer and logs as after one in batches."""
    case = alike[name]
    record = case["record"]
    assert (record["mode"], record["deviations"]) == (CASES[name], [])
    assert (record["batch"], record["slices"], record["size"]) == (BATCH, 4, SIZE)
    assert case["differences"] <= 1e-5
    whole, sliced = case["updates"]
    assert whole == sliced > 0
    assert case["logs"].keys() == case["expected"].keys()
    for key, values in case["expected"].items():
        assert case["logs"][key] == pytest.approx(values, rel=1e-5), key


def test_what_slices_change_on_torch_is_told(found: dict[str, Any]) -> None:
    """Also what the first samples do not show; and a call of two passes counts once."""
    case = found["otherwise"]
    assert case["gate that is shut"] == [deviations.COUPLED]
    assert case["counts in its call"] == [deviations.CALL_UPDATES_METRICS]
    assert "a train_step was put into Functional" in case["step put in"]
    assert case["hook"] == [deviations.HOOKS]
    assert case["numpy"] == [f"layer 'seldom' (Seldom) {DRAWS}"]
    whole, sliced = case["through"]
    assert sliced == pytest.approx(whole, rel=1e-5)


def test_half_precision_keeps_the_scale_of_its_loss(found: dict[str, Any]) -> None:
    """mixed_float16: the loss scaler sees the gradients of the batch, overflows, too."""
    half = found["half"]
    assert half["optimizer"] == "LossScaleOptimizer"
    assert half["deviations"] == [deviations.HALF]
    assert len(set(half["scale"])) == len(set(half["clock"])) == 1
    assert max(half["differences"]) <= 1e-3
    whole, sliced = found["overflowing"]["scale"]
    assert whole == sliced < half["scale"][0]


def test_what_deviates_on_torch_is_told_or_refused(found: dict[str, Any]) -> None:
    """In the same words as on TensorFlow; unseeded draws are PyTorch's own there."""
    case = found["deviating"]
    told = [
        f"layer 'norm' (BatchNormalization) {KEEPS}",
        f"layer 'drop' (Dropout) {DRAWS}",
    ]
    assert case["deviations"] == told
    assert all(one in case["refused"] for one in told)
    assert case["changed"] is False


def test_modules_of_torch_are_left_as_they_were(found: dict[str, Any]) -> None:
    """The check puts buffers and generators back; a step of two passes counts once."""
    case = found["modules"]
    assert case["kept"]
    assert case["restored"]
    assert case["mode"] == "two_pass"
    two = (
        "2 layers of TorchModuleWrapper (torch_module_wrapper, torch_module_wrapper_2)"
    )
    assert sorted(case["deviations"]) == [
        f"{two} keep statistics of what they are given: they are given slices",
        f"layer 'torch_module_wrapper_1' (TorchModuleWrapper) {DRAWS}",
    ]
    assert case["batches"] == 8 * 4 + 3


def test_a_train_step_of_its_own_on_torch(found: dict[str, Any]) -> None:
    """It is not sliced, and that is said; with ``reduce`` it gets smaller batches."""
    case = found["own_steps"]
    kinds, slices, sentence = case["left"]
    assert (kinds, slices) == (["notice"], 1)
    assert "has a train_step of its own" in sentence
    assert (case["mode"], case["steps"]) == ("reduce", [12, 13, 12, 13])
    assert case["rate"] == 0.5
    assert "take a smaller batch" in found["hopeless"]


def test_a_compiled_step_is_sliced_without_it(found: dict[str, Any]) -> None:
    """torch.compile would unroll the loop: slices go without, and that is said."""
    assert found["compiled"]["differences"] <= 1e-5
    (told,) = found["compiled"]["told"]
    assert "its slices are not" in told


def test_without_figures_the_slice_is_halved(found: dict[str, Any]) -> None:
    """The allocator of a CPU keeps none, so nothing can be measured."""
    assert found["halved"] == {"size": 13, "slices": 4, "source": "halved"}


def test_on_a_gpu_the_first_steps_measure(found: dict[str, Any]) -> None:
    """From small slices to the largest that fits: 50 samples of 1 kB beside 100 kB in
    145 kB are two slices."""
    case = found["measured"]
    assert case["tried"] == sorted(case["tried"])
    assert (case["tried"][-1], case["source"]) == (25, "measured")
    assert case["peak"] <= case["limit"] == 145_000


def test_nothing_of_tensorflows_slices_is_needed(found: dict[str, Any]) -> None:
    """It need not be installed."""
    assert not [name for name in found["tensorflow"] if ".slices" in name]
