"""Learning rates for a batch that changes: the rules, their inverses, and what they refuse."""

import math

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
def test_empty_batch(rule: object) -> None:
    """A batch of no sample is a mistake, and said to be one."""
    assert callable(rule)
    with pytest.raises(ValueError, match="one sample or more"):
        rule(0.1, batch=0, new_batch=8)
