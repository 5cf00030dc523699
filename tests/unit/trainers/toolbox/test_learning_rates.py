"""Learning rates for a batch that changes: the rules, their inverses, and what they refuse."""

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainers.toolbox.learning_rates import AdamSettings, adam, linear, square_root

BATCHES = st.integers(1, 4096)
RATES = st.floats(1e-6, 1.0)


@given(rate=RATES, batch=BATCHES, new_batch=BATCHES)
def test_there_and_back(rate: float, batch: int, new_batch: int) -> None:
    """What a rule does for a smaller batch, it takes back for the larger one."""
    for rule in (linear, square_root):
        there = rule(rate, batch=batch, new_batch=new_batch)
        back = rule(there, batch=new_batch, new_batch=batch)
        assert math.isclose(back, rate, rel_tol=1e-9)


def test_known_values() -> None:
    """Goyal et al.: 0.1 for 256 samples is 3.2 for 8192."""
    assert linear(0.1, batch=256, new_batch=8192) == pytest.approx(3.2)
    assert square_root(0.1, batch=256, new_batch=64) == pytest.approx(0.05)


def test_adam_averages_over_as_many_samples() -> None:
    """A quarter of the batch: averages over four times as many updates, half the rate."""
    found = adam(AdamSettings(), batch=256, new_batch=64)
    assert found.learning_rate == pytest.approx(0.0005)
    assert found.beta_1 == pytest.approx(0.975)
    assert found.beta_2 == pytest.approx(0.99975)
    assert found.epsilon == pytest.approx(2e-7)


def test_no_average_is_left() -> None:
    """Sixteen times the batch would make a beta of -0.6."""
    with pytest.raises(ValueError, match="16 times as large leaves nothing"):
        adam(AdamSettings(), batch=32, new_batch=512)


@pytest.mark.parametrize("rule", [linear, square_root])
@pytest.mark.parametrize(
    ("rate", "why"),
    [
        (math.nan, "rate is nan: give a finite one"),
        (math.inf, "give a finite one"),
        (-0.1, "give a finite one from 0"),
        ("0.1", "rate is '0.1': give a number"),
        (None, "rate is None: give a number"),
        (
            keras.optimizers.schedules.ExponentialDecay(0.1, 100, 0.9),
            "rate is a ExponentialDecay: make the schedule anew",
        ),
    ],
)
def test_no_rate(rule: Callable[..., float], rate: Any, why: str) -> None:
    """What is no rate gives none; a schedule needs its steps stretched as well."""
    with pytest.raises((TypeError, ValueError), match=why):
        rule(rate, batch=64, new_batch=32)


def test_rates_of_numpy_and_keras() -> None:
    """What holds a number is one."""
    rates: list[Any] = [np.float32(0.5), keras.Variable(0.5)]
    for rate in rates:
        assert linear(rate, batch=64, new_batch=32) == 0.25


@pytest.mark.parametrize("batch", [None, 64.5, "64", -1])
def test_no_batch(batch: Any) -> None:
    """Samples are counted."""
    with pytest.raises(ValueError, match="one sample or more"):
        linear(0.1, batch=batch, new_batch=8)


def test_no_settings() -> None:
    """Adam's rule changes more than the rate."""
    with pytest.raises(TypeError, match=r"give them together, as AdamSettings\("):
        adam(0.001, batch=64, new_batch=32)  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", [linear, square_root])
def test_empty_batch(rule: object) -> None:
    """A batch of no sample is a mistake, and said to be one."""
    assert callable(rule)
    with pytest.raises(ValueError, match="one sample or more"):
        rule(0.1, batch=0, new_batch=8)
