"""Slices of a few samples, and how what they give makes up what the samples give at once."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import keras
import numpy as np

from trainers.backends import slicing
from trainers.backends.slices import deviations
from trainers.backends.slices.slice_loss import LossRule

Span = tuple[int, int]
"""The first sample, and the one after the last."""


def spans_of(samples: int) -> list[Span]:
    """Up to three slices of different sizes that cover ``samples``."""
    first, second = samples // 2, samples // 2 + samples // 3
    return list(itertools.pairwise(sorted({0, first, second, samples})))


def agreed(rules: Iterable[LossRule | None]) -> LossRule | None:
    """The rule by several trials; None: none of them told."""
    told = {rule for rule in rules if rule is not None}
    if len(told) > 1:
        return LossRule.WHOLE
    return told.pop() if told else None


def added_rules(
    known: Sequence[LossRule | None], *, by_weights: int
) -> tuple[tuple[LossRule, ...], list[str]]:
    """How the added losses make up those of the batch, and sentences of what is not known;
    the last ``by_weights`` are the same for each slice."""
    rules, odd = [], []
    for number, rule in enumerate(known, start=1):
        if rule is LossRule.WHOLE:
            odd.append(deviations.added_averaged(number, of=len(known)))
        elif rule is None and number <= len(known) - by_weights:
            odd.append(deviations.added_unknown(number, of=len(known)))
        rules.append(LossRule.SUM if rule is LossRule.SUM else LossRule.MEAN)
    return tuple(rules), odd


def some_zero(labels: Any) -> Any:
    """``labels`` (n, …) with more zeros in the first samples than in the others.

    A loss that leaves out padding, and divides by what is left, is a mean over samples
    for as long as all are equally full: which those of one batch may be.
    """

    def one(leaf: Any) -> Any:
        zeros = np.zeros(leaf.shape, bool)
        wide = leaf.shape[1] // 2 if len(leaf.shape) > 1 else 0
        zeros[: max(1, len(zeros) // 4), ...] = True
        if wide:
            zeros[:, :wide] = False  # a loss may divide by what is left of a sample
        return keras.ops.where(zeros, keras.ops.zeros_like(leaf), leaf)

    return slicing.map_leaves(one, labels)


def unlike_zero(shape: Sequence[int]) -> np.ndarray:
    """Small numbers for a weight that is zero at first, and hides what comes after it."""
    at = np.arange(int(np.prod(shape)))
    numbers = 0.05 * (1 + at % 7 / 7) * np.where(at % 3 == 1, -1, 1)
    return numbers.reshape(shape).astype("float32")


def near(left: Any, right: Any, tolerance: float) -> bool:
    """Whether two arrays differ by at most that part of the largest magnitude."""
    scale = max(float(np.max(np.abs(left), initial=0)), 1e-30)
    return bool(np.max(np.abs(left - right), initial=0) <= tolerance * scale)


def rule_of(
    whole: Any, several: Sequence[Any], spans: Sequence[Span], tolerance: float
) -> LossRule | None:
    """How the scalar ``whole`` follows from those of the ``spans``; None: it cannot be
    told from zeros, nor where there is no number."""
    total = spans[-1][1]
    expected = float(whole)
    values = [float(one) for one in several]
    shares = [(stop - start) / total for start, stop in spans]
    mean = sum(share * value for share, value in zip(shares, values, strict=True))
    scale = max(abs(expected), *(abs(value) for value in values)) * tolerance
    if scale == 0 or not np.isfinite(expected):
        return None
    if abs(expected - mean) <= scale:
        return LossRule.MEAN
    return LossRule.SUM if abs(expected - sum(values)) <= scale else LossRule.WHOLE
