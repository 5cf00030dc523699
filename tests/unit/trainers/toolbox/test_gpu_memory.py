"""Limits of GPUs: what is asked of the framework, and what is refused.

TensorFlow's own functions are replaced: a limit is seen on a GPU alone (tests/gpu).
"""

from typing import Any

import keras
import pytest
import tensorflow as tf

from trainers.toolbox.gpu_memory import grow_gpu_memory, limit_gpu_memory

GIB = 2**30


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What two GPUs were asked for."""
    found: list[Any] = []

    def listed(_kind: str) -> list[str]:
        return ["first", "second"]

    def configured(gpu: str, devices: list[Any]) -> None:
        found.append((gpu, [one.memory_limit for one in devices]))

    def grown(gpu: str, enable: bool) -> None:  # noqa: FBT001  # as TensorFlow has it
        found.append((gpu, enable))

    monkeypatch.setattr(tf.config, "list_physical_devices", listed)
    monkeypatch.setattr(tf.config, "set_logical_device_configuration", configured)
    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", grown)
    return found


def test_a_limit_for_each(asked: list[Any]) -> None:
    """In MiB, as TensorFlow counts; a GPU that is not named is left alone."""
    limit_gpu_memory({1: 6 * GIB})
    assert asked == [("second", [6144])]


def test_growth(asked: list[Any]) -> None:
    """Of all of them, as it cannot differ."""
    grow_gpu_memory()
    assert asked == [("first", True), ("second", True)]


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({2: GIB}, "no GPU 2 here: 2 are visible"),
        ({-1: GIB}, "from 0"),
        ({0: 6}, "1 MiB or more"),
        ({0: "6 GiB"}, "1 MiB or more"),
        ({0: float("nan")}, "1 MiB or more"),
        ({"GPU:0": GIB}, "the number of a GPU"),
        ({0: GIB, 2: GIB}, "no GPU 2 here"),
    ],
)
def test_refused(asked: list[Any], limits: dict[int, int], why: str) -> None:
    """A GPU that is not there, and a limit that was meant in GiB, before any is set."""
    with pytest.raises(ValueError, match=why):
        limit_gpu_memory(limits)
    assert asked == []


def test_bytes_by_a_float(asked: list[Any]) -> None:
    """6e9 is a number of bytes."""
    limit_gpu_memory({0: 6e9})  # type: ignore[dict-item]
    assert asked == [("first", [5722])]


@pytest.mark.parametrize("limits", [None, 6 * GIB])
def test_no_mapping(limits: Any) -> None:
    """A sentence with what to give."""
    with pytest.raises(TypeError, match="give bytes by the number of the GPU"):
        limit_gpu_memory(limits)


def test_no_gpu() -> None:
    """On this CPU."""
    with pytest.raises(ValueError, match=r"0 are visible\. Leave its limit out"):
        limit_gpu_memory({0: GIB})
    grow_gpu_memory()


def test_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to set in the environment."""

    def backend() -> str:
        return "jax"

    monkeypatch.setattr(keras.backend, "backend", backend)
    with pytest.raises(NotImplementedError, match="XLA_PYTHON_CLIENT_MEM_FRACTION"):
        limit_gpu_memory({0: GIB})
    with pytest.raises(NotImplementedError, match="PREALLOCATE=false"):
        grow_gpu_memory()
