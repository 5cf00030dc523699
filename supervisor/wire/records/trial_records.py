"""The records of a trial: the first ``fit`` of a script, some steps of it, and no training.

Written by the training process, as records of its event file, where the directive asks for
a trial (``Directive.trial_steps``).
"""

from dataclasses import dataclass

from supervisor.wire.json_record import JsonRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFit(JsonRecord):
    """What is about to be tried, as it is in this process."""

    batch: int | None
    """Samples a step; None: the data do not say."""
    pass_steps: int | None
    """Steps of a pass through the data; None: unknown."""
    backend: str
    device: str
    """``CPU`` or ``GPU``."""
    precision: str
    """The dtype policy that layers compute by; where they differ, one that is not the one
    asked for."""
    loss_scaling: bool
    """Whether the optimizer scales the loss, as float16 needs it."""
    jit: bool
    jit_possible: bool
    """Whether Keras would compile the step by itself where there is a GPU."""
    own_step: bool
    """Whether the model has a ``train_step`` of the script's own."""
    optimizer: str
    """Its class; empty: none that Keras knows of."""
    optimizer_bytes: int
    weights_bytes: int
    """Of all variables of the model."""
    steps_per_execution: int
    recomputed: int
    """Layers whose activations are computed again in the backward pass."""
    not_recomputed: int
    """Layers that are left out of that, for they have a state that changes with a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStep(JsonRecord):
    """One call of the train function."""

    steps: int
    """In it; the one number but 1 is that of ``steps_per_execution``."""
    seconds: float
    """For all of them."""
    loss: float | None
    """Of these steps alone, their mean; None: it is no number, or there is none."""
    peak_bytes: int | None
    """In use in the allocator at most; None: it keeps no figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEnd(JsonRecord):
    """All steps were made."""

    between_bytes: int | None
    """In use between the last steps."""
    weights: str
    """A digest of all variables of the model."""
