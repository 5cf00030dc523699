"""The record of what a step of a real run needs of memory: counted variables, and a peak.

Written by the training process in its first ``fit`` (``RecordKind.STEP_NEEDS``): before the
first step, and once its first steps were made. What it means is worked out elsewhere
(``core.memory.step_budget``).
"""

from dataclasses import dataclass

from supervisor.wire.json_record import JsonRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class StepNeeds(JsonRecord):
    """Bytes where nothing else is said. None: not known."""

    fit: int
    """Number of the call, from 0."""
    batch: int | None
    """Samples."""
    slices: int
    """Parts that a batch is worked through in: the peak is that of one of them."""
    parameters: int
    """Numbers, those among them that are not trained included."""
    trained: int
    """Of these, those that are."""
    parameter_bytes: int
    trained_bytes: int
    largest_bytes: int
    """Of the largest variable that is trained."""
    optimizer_bytes: int | None
    optimizer: str
    """Its class; empty: none that Keras knows of."""
    other_bytes: int
    """Metrics, random generators and what else the model keeps."""
    limit_bytes: int | None
    backend: str
    array_bytes: int = 0
    """Of training data that lie in memory as a whole."""
    batch_bytes: int = 0
    """0: not known."""
    alike: bool = True
    """Whether all samples are of one shape."""
    in_use_bytes: int | None = None
    """Between two steps; None: no step was made yet, or nobody counts."""
    peak_bytes: int | None = None
    """The most in use at once in the first steps; None: as above."""
