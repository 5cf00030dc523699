"""The evidence of steps: what a ``fit``, or a loop, shows of how it spends its time.

Counted by training since the ``fit`` settled; the newest record of an attempt counts.
What it means is judged elsewhere (``core.advisories``).
"""

from dataclasses import dataclass

from supervisor.wire.json_record import JsonRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEvidence(JsonRecord):
    """Of one call of ``fit``, or of a loop of the script's own. None: not measured."""

    fit: int | None
    """Number of the call, from 0; None: a loop that is followed call by call."""
    steps: int
    """Counted, after the first few."""
    seconds: float
    """Between the first boundary that counts and the last, all that lies between steps
    included."""
    data_steps: int = 0
    """Of them those over which the wait for data was measured."""
    data_seconds: float = 0.0
    """What those took."""
    wait_seconds: float = 0.0
    """What of that the step stood still until the next batch was there."""
    on_cpu: bool = True
    """Whether steps are computed by the processor, that is while nobody waits for data.
    A GPU may still be at work on the step before."""
    finds_no_gpu: bool = False
    """Whether the framework looked for a GPU, as nobody asked for the processor, and found
    none."""
    in_memory: bool = False
    """Whether the data are arrays of the script's, which nothing reads or prepares."""
    traced_steps: int | None = None
    """Of them those in which a function was traced."""
    trace_seconds: float = 0.0
    """What tracing took in them."""
    float64_operations: int | None = None
    """Matrix products and convolutions of the traced step that are done in float64."""
    products: int | None = None
    """All of them, of any type."""
    float64_meant: bool = False
    """Whether the script set Keras' default type to float64."""
    write_looks: int = 0
    """Looks at the training thread, one a second."""
    writing_looks: int = 0
    """Those that found it standing in a write."""
    written_file: str = ""
    """Where most of these went."""
    wide_input_bytes: int = 0
    """Of a batch: what comes in float64, and is made narrower in each step."""
    wide_inputs: tuple[str, ...] = ()
    """The shapes that they come in: ``256x784``."""
