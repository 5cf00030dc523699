"""Rules about the data of a run: they come too late, or in the wrong type."""

from supervisor.core.advisories.advisory import Advisory, AdvisoryKind
from supervisor.core.advisories.run_evidence import RunEvidence
from supervisor.core.text.units import format_duration, format_size

WAITED_PART = 0.25
"""Of the time of the steps: data that were always there would make these steps a third
faster (1 / 0.75) or more. Less is often lost again where the processor that would read
ahead is the one that computes."""
WAITED_SECONDS = 5.0
"""In all: a run that has lost less is over before anybody has read the sentence. And the
first batches of a pipeline always come late."""
WAITED_STEPS = 32
"""Measured over as many: a shuffle that is filled, or one slow file, is no bottleneck."""
LOOKS = 10
"""At a GPU, before its idle time is believed: the driver averages over a second or less."""
WIDE_BYTES = 2**20
"""Of a batch: from there on the double transfer (0.1 ms at 10 GB/s) and the conversion are
no longer hidden by what the launch of a step takes anyway."""

READ_AHEAD = (
    "Let the pipeline read ahead and in parallel: tf.data's map(..., "
    "num_parallel_calls=tf.data.AUTOTUNE), cache() before what is random, prefetch"
    "(tf.data.AUTOTUNE) last; a PyDataset with workers > 1. Or prepare the data once, "
    "and read them from a fast local disk."
)
NARROW = (
    "Make the data float32 once, where they are loaded: x.astype('float32') for an array, "
    "a cast in the pipeline's map for tf.data. That halves what is kept, read and sent."
)


def input_bound(evidence: RunEvidence) -> Advisory | None:
    """The steps wait for their data."""
    steps = evidence.steps
    if steps is None or steps.data_steps < WAITED_STEPS or steps.data_seconds <= 0.0:
        return None
    if steps.on_cpu and steps.in_memory:
        return None  # nothing to read ahead: what is waited for is the processor
    part = steps.wait_seconds / steps.data_seconds
    if not steps.on_cpu:  # the GPU may be at work on the step before meanwhile
        busy = evidence.gpus.busy
        if busy is None or evidence.gpus.busy_looks < LOOKS:
            return None
        part = min(part, 1.0 - busy)
    waited = part * steps.seconds
    if part < WAITED_PART or waited < WAITED_SECONDS:
        return None
    idle = "" if steps.on_cpu else ", and the GPU is idle meanwhile"
    return Advisory(
        kind=AdvisoryKind.INPUT_BOUND,
        sentence=(
            f"training waits for its data {part:.0%} of the time{idle} (measured over "
            f"{steps.data_steps} steps, {format_duration(steps.data_seconds)}): with data "
            f"that are always there it would be up to {1 / max(1 - part, 0.01):.1f} times "
            "as fast"
        ),
        advice=READ_AHEAD,
        figures={
            "waited_ratio": round(part, 4),
            "measured_steps": steps.data_steps,
            "measured_seconds": round(steps.data_seconds, 3),
        },
    )


def converted_inputs(evidence: RunEvidence) -> Advisory | None:
    """The data come in float64, and each step makes them narrower."""
    steps = evidence.steps
    if steps is None or steps.float64_meant or steps.wide_input_bytes < WIDE_BYTES:
        return None
    shapes = ", ".join(steps.wide_inputs[:3])
    return Advisory(
        kind=AdvisoryKind.CONVERTED_INPUTS,
        sentence=(
            f"each batch brings {format_size(steps.wide_input_bytes)} in float64 (of the "
            f"shape {shapes}), and each step converts them to what the model computes in"
        ),
        advice=NARROW,
        figures={"batch_bytes": steps.wide_input_bytes},
    )
