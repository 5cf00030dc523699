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
    read_ahead: int | None = None
    """Batches that the script's own ``tf.data`` pipeline reads ahead at its end: 0: none, -1:
    as many as TensorFlow likes; None: that is nobody's to change, or there is no such
    pipeline."""
    untimed: int = 0
    """Steps after the first call, more than were asked for, that say nothing of the time: as
    many batches were read ahead, at most, while that call was traced."""
    lone_maps: int = 0
    """Stages of the pipeline whose calls TensorFlow makes one after another."""
    cache_place: str = ""
    """Where in the pipeline a cache belongs, in words; empty: nothing is read or computed
    there that is the same in each pass."""
    cache_bytes: int | None = None
    """Of a cache of all the data, on disk; None: not known, or there is none."""
    array_bytes: int = 0
    """Of arrays that the framework may hold whole, as training data."""
    streamed: bool = False
    """Whether batches are cut from main memory instead."""
    sizes: str = ""
    """Of what the model takes any size: ``images``, ``sequences``; empty: of neither."""
    fixed_size: str = ""
    """The one size of image or sequence that it takes; empty: there is none."""
    half_size: bool = False
    """Whether it is given batches of half the size."""
    convolutions: int = 0
    """Layers of the model that are some."""
    xla_flags: str = ""
    """The variable ``XLA_FLAGS``, as the process has it."""


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
