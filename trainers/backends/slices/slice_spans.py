"""Slices of a few samples, and how what they give makes up what the samples give at once."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainers.backends.slices.slice_loss import LossRule

Span = tuple[int, int]
"""The first sample, and the one after the last."""


def spans_of(samples: int) -> list[Span]:
    """Up to three slices of different sizes that cover ``samples``."""
    first, second = samples // 2, samples // 2 + samples // 3
    return list(itertools.pairwise(sorted({0, first, second, samples})))


def near(left: Any, right: Any, tolerance: float) -> bool:
    """Whether two arrays differ by at most that part of the largest magnitude."""
    scale = max(float(np.max(np.abs(left), initial=0)), 1e-30)
    return bool(np.max(np.abs(left - right), initial=0) <= tolerance * scale)


def rule_of(
    whole: Any, several: Sequence[Any], spans: Sequence[Span], tolerance: float
) -> LossRule:
    """How the scalar ``whole`` follows from those of the ``spans``."""
    total = spans[-1][1]
    expected = float(whole)
    values = [float(one) for one in several]
    shares = [(stop - start) / total for start, stop in spans]
    mean = sum(share * value for share, value in zip(shares, values, strict=True))
    scale = max(abs(expected), *(abs(value) for value in values)) * tolerance
    if abs(expected - mean) <= scale or not np.isfinite(expected):
        return LossRule.MEAN
    return LossRule.SUM if abs(expected - sum(values)) <= scale else LossRule.WHOLE
