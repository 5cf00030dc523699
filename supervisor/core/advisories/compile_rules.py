"""Rules about what was made of the train step: traced again, or in another type."""

from supervisor.core.advisories.advisory import Advisory, AdvisoryKind
from supervisor.core.advisories.run_evidence import RunEvidence
from supervisor.core.text.units import format_duration

TRACED_PART = 0.5
"""Of the steps: batches of a few lengths, a short last one or a new phase of training are
traced once each. Half of all steps means that what changes is something that changes
always."""
TRACED_STEPS = 10
"""At least so many: a text trainer with ten lengths of its batches traces ten times at its
beginning, and then no more."""
FLOAT64_PRODUCTS = 1
"""Keras never computes a product in float64 unless somebody asked for that: one is enough."""

STABLE_ARGUMENTS = (
    "A tf.function is traced anew for each new Python value and each new shape. Pass "
    "numbers that change as tensors (tf.constant(step)), give batches one shape "
    "(drop_remainder=True, padding, or reduce_retracing=True), make the function once and "
    "outside of the loop, and do not compile the model or make its train function in a "
    "callback."
)
SINGLE_PRECISION = (
    "Look for what is made of NumPy's own type: np.random and np.array give float64, and a "
    "constant or a layer made of it carries that through the model. Cast it "
    "(tf.cast(x, tf.float32), dtype='float32'). If float64 is meant, say so with "
    "keras.config.set_floatx('float64'), and this is not told again."
)


def retracing(evidence: RunEvidence) -> Advisory | None:
    """A function is traced in every step, or nearly."""
    steps = evidence.steps
    traced = None if steps is None else steps.traced_steps
    if steps is None or traced is None or traced < TRACED_STEPS:
        return None
    if traced < TRACED_PART * steps.steps:
        return None
    part = steps.trace_seconds / steps.seconds if steps.seconds > 0.0 else 0.0
    return Advisory(
        kind=AdvisoryKind.RETRACING,
        sentence=(
            f"TensorFlow traced a function anew in {traced} of {steps.steps} steps, which "
            f"took {format_duration(steps.trace_seconds)} ({part:.0%} of the time); each "
            "trace also stays in memory"
        ),
        advice=STABLE_ARGUMENTS,
        figures={
            "traced_steps": traced,
            "steps": steps.steps,
            "trace_seconds": round(steps.trace_seconds, 3),
        },
    )


def float64(evidence: RunEvidence) -> Advisory | None:
    """Products are computed in float64 where float32 is the default."""
    steps = evidence.steps
    wide = None if steps is None else steps.float64_operations
    if steps is None or wide is None or steps.float64_meant:
        return None
    if wide < FLOAT64_PRODUCTS:
        return None
    whole = max(steps.products or wide, wide)
    return Advisory(
        kind=AdvisoryKind.FLOAT64,
        sentence=(
            f"{wide} of the {whole} matrix products and convolutions of a step are "
            "computed in float64, though the script's default type is another: that takes "
            "twice the memory, and on most GPUs 32 to 64 times as long"
        ),
        advice=SINGLE_PRECISION,
        figures={"float64_operations": wide, "operations": whole},
    )
