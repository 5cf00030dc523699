"""What is against slices of a batch, in sentences; and the size where nothing is known."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras

from supervisor.wire.reasons import RefusalReason, SizeSource
from supervisor.wire.slices import balanced
from trainers.microbatch.calibration import first_trial
from trainers.process import allocation_subject

_WRAPPED = "Exception encountered when calling"
"""How Keras begins, before the text of the exception itself."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m|\{\{[^}]*\}\}")
"""Bold type, and names of graph nodes."""


class MicrobatchRefusedError(Exception):
    """The batch cannot be sliced, or not as the spec demands; the message says why."""

    def __init__(self, reason: RefusalReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What is against slices of a batch."""

    why: str
    whole_only: bool = False
    """No smaller batch would do for the model either."""


def refuse_deviations(deviations: Sequence[str]) -> None:
    """For a spec that allows none. Raises MicrobatchRefusedError."""
    if deviations:
        reasons = "; ".join(deviations)
        message = f"Slices would change the result, which the spec forbids: {reasons}."
        raise MicrobatchRefusedError(RefusalReason.INEXACT, message)


def too_large(
    obstacle: Obstacle, *, failed: int, fits: int | None, reducible: bool
) -> MicrobatchRefusedError:
    """What a person has to know, who must choose another batch than ``failed`` samples.

    ``fits``: about so many would fit; None: nobody knows. ``reducible``: the spec can
    allow smaller batches.
    """
    why = obstacle.why
    if obstacle.whole_only:
        return MicrobatchRefusedError(
            RefusalReason.MEMORY,
            f"a batch of {failed} samples does not fit into memory and is not sliced, as"
            f" {why}; a smaller model, mixed precision"
            " (remedies.mixed_precision = true in the spec) or a device with more memory"
            " can help",
        )
    advice = (
        "take a smaller batch in the script"
        if fits is None
        else f"about {fits} samples would fit: take that as the batch in the script"
    )
    allow = "; microbatch.reduce in the spec lets the supervisor do so"
    return MicrobatchRefusedError(
        RefusalReason.MEMORY,
        f"a batch of {failed} samples does not fit into memory and is not sliced, as"
        f" {why}; {advice} (which changes what is computed: you may want another"
        f" learning rate){allow if reducible else ''}",
    )


def first_size(
    batch: int, wanted: int | None, ceiling: int | None, *, climbs: bool
) -> tuple[int, SizeSource]:
    """The size to begin with, and where it comes from."""
    if climbs:
        return first_trial(batch=batch, ceiling=ceiling), SizeSource.TRIAL
    if wanted is not None:
        return balanced(batch=batch, size=wanted), SizeSource.ASKED
    half = (batch if ceiling is None else min(ceiling, batch)) // 2
    return balanced(batch=batch, size=half), SizeSource.HALVED


def refused_parts(error: Exception) -> str:
    """Why a model that raised ``error`` for a part of a batch cannot be given slices.

    An adjacency matrix, or a table that all samples share, is as long as the batch and is
    cut with it. Whole batches reach the model unchanged: what is wrong with them it says
    in training. Raises ``error`` itself where it is memory that ran out.
    """
    if allocation_subject.out_of_memory(error):
        raise error
    said = [line for line in _COLOURS.sub("", str(error)).splitlines() if line.strip()]
    own = [line for line in said if not line.startswith(_WRAPPED)] or said or [""]
    return (
        "the model cannot be given a part of a batch; an input that is not per sample,"
        " such as an adjacency matrix, would be a reason"
        f" ({type(error).__name__}: {own[0].strip()})"
    )


def not_per_sample(leaves: Sequence[Any]) -> str | None:
    """Why these parts of a batch cannot be cut; None if they can."""
    if not all(hasattr(leaf, "shape") and len(leaf.shape) for leaf in leaves):
        return "the batch holds something that is no tensor"
    samples = leaves[0].shape[0]
    other = [tuple(leaf.shape) for leaf in leaves if leaf.shape[0] != samples]
    if other:
        return f"a part of it, of shape {other[0]}, has another length: it is not per sample"
    return "it has one sample" if samples < 2 else None


def steps_otherwise(model: Any) -> str | None:
    """Why it would be unknown what a step of the model does; None: it is Keras' own."""
    name = type(model).__name__
    if "train_step" in vars(model):
        return f"a train_step was put into {name}"
    for method in ("make_train_function", "compute_loss_and_updates"):
        own = vars(model).get(method, getattr(type(model), method, None))
        module = getattr(own, "__module__", None) or ""
        if own is not None and not module.startswith("keras."):
            return f"{name} has a {method} of its own"
    return None


def built_for_one_size(model: Any) -> str | None:
    """Why the model takes no smaller batches; None if it does."""
    inputs = getattr(model, "inputs", None) or []
    shapes = [tensor.shape[0] for tensor in keras.tree.flatten(inputs)]
    fixed = [shape for shape in shapes if shape is not None]
    return f"the model was built for batches of exactly {fixed[0]}" if fixed else None
