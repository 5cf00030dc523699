"""Which cases of a matrix ``make test`` runs; ``make test-slow`` runs the others."""

from collections.abc import Iterable
from typing import Any

import pytest


def sampled(cases: Iterable[str], *kept: str) -> list[Any]:
    """All ``cases``, for ``pytest.mark.parametrize``: those not ``kept`` are slow."""
    names = list(cases)
    assert set(kept) <= set(names), kept
    return [
        pytest.param(name, id=name, marks=() if name in kept else pytest.mark.slow)
        for name in names
    ]
