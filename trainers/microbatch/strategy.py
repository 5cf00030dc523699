"""The strategy for a model's batch: a sum over slices, or several smaller batches."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trainers.backends.selected import backend
from trainers.backends.slices import equivalence_check
from trainers.microbatch import rebatch_step


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """What was found out of a model, and the step that follows from it."""

    mode: str
    """``exact``, ``two_pass`` or ``reduce``."""
    deviations: tuple[str, ...]
    """How the result will differ from that of whole batches, a sentence each."""
    rules: Any
    """What the step is made by, and has to be made again for when it changes."""
    step: Callable[..., Any]
    """Makes the step, of the variables ``size`` and ``seen``."""


def strategy_of(
    model: Any, batch: Any, *, rule: str | None, ceiling: int, products: bool
) -> Strategy:
    """The strategy for ``model``, tried with a few samples of ``batch``.

    ``batch``: (x, y, sample weights). ``rule``: what becomes of the learning rate where
    each slice is a batch of its own (``rebatch_step``); None: it is none. ``ceiling``:
    samples of which it is known that they are too many, or all of the batch.
    ``products``: whether kernels may take wide copies (``float32_accumulation``).
    """
    if rule is not None:  # an update a slice, by the script's own step
        return Strategy(
            mode="reduce",
            deviations=rebatch_step.deviations(model, rule),
            rules=rule,
            step=rebatch_step.maker(model, rule),
        )
    samples = max(2, min(equivalence_check.SAMPLES, ceiling // 4))
    findings = equivalence_check.examine(
        model, batch, samples=samples, support=backend.slices
    )
    rules = findings.rules
    return Strategy(  # one update a batch, of the sums over its slices
        mode="two_pass" if rules.two_pass else "exact",
        deviations=findings.deviations,
        rules=(rules, products),
        step=backend.slices.step(model, rules=rules, wide_products=products),
    )
