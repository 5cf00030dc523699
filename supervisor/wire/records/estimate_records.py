"""The records of an estimate: what a model holds, and what a step of it adds.

Written by the training process, as records of its event file, where the directive asks for
an estimate and for no training.
"""

from dataclasses import dataclass

from supervisor.wire.json_record import JsonRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMemory(JsonRecord):
    """What is there between two steps, in bytes where nothing else is said."""

    batch: int
    """Samples in a batch of the script's."""
    batch_bytes: int
    parameters: int
    """Numbers, those among them that are not trained included."""
    trained: int
    """Of these, those that are."""
    parameter_bytes: int
    trained_bytes: int
    optimizer_bytes: int
    optimizer: str
    """Its class; empty: none that Keras knows of."""
    other_bytes: int
    """Metrics, random generators and what else the model keeps."""
    data_bytes: int
    """Training data, and whatever else lies there at any batch."""
    drawn_bytes: int
    """More once the data are iterated: the batch in work, those read ahead, shuffles."""
    jit: bool
    """Whether the step was compiled by XLA."""
    jit_possible: bool
    """Whether Keras would compile it by itself where there is a GPU."""
    backend: str
    """``tensorflow`` or ``jax``."""
    shapes: int = 1
    """How many shapes of samples were seen; the largest of them was measured."""
    devices: int = 1
    """On how many it trains at once. All of them are parts of one CPU here, with one memory:
    bytes are of all together, a copy of each variable for each device."""
    parted: bool = False
    """Whether the script's strategy parts each batch between the devices that there are."""
    own_steps: int = 0
    """Steps of a loop of the script's own that were made to measure them; 0: it calls
    ``fit``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMemory(JsonRecord):
    """What steps of one size were seen to add to what is there between them."""

    size: int
    """Samples in the batch."""
    added_bytes: int
    """The most of the steps."""
    least_bytes: int
    """The least of the steps."""
    step_seconds: float
    """The last of the steps."""
    first_seconds: float
    """The first, which traces and compiles."""
    steps: int = 0
    """How many were seen; 0: it is not known."""
