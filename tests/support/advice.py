"""What trials of alternatives found, made by hand."""

from supervisor.core.memory.alternatives import Alternative, AlternativeAxis, Numbers
from supervisor.core.memory.best_combination import Compared
from supervisor.core.memory.trial_results import NumbersFound, TrialOutcome, TrialResult
from supervisor.runtime.measuring.alternative_trials import Advice
from supervisor.runtime.measuring.trial_attempt import TrialQuestion
from supervisor.wire.records.trial_records import TrialEnd, TrialFit, TrialStep

LIMIT = 1000
FIT = TrialFit(
    batch=32,
    pass_steps=8,
    backend="tensorflow",
    device="CPU",
    precision="float32",
    loss_scaling=False,
    jit=False,
    jit_possible=True,
    own_step=False,
    optimizer="Adam",
    optimizer_bytes=200,
    weights_bytes=100,
    steps_per_execution=1,
    recomputed=0,
    not_recomputed=0,
)


def measured(
    *combination: Alternative, peak: int = 500, ratio: float = 1.0
) -> Compared:
    """A trial that came to its end, with numbers that differ by rounding."""
    step = TrialStep(steps=1, seconds=0.1 * ratio, loss=1.0, peak_bytes=peak)
    result = TrialResult(
        combination=combination,
        outcome=TrialOutcome.MEASURED,
        fit=FIT,
        steps=(step,) * 3,
        end=TrialEnd(between_bytes=100, weights="w"),
    )
    return Compared(
        result=result, numbers=NumbersFound(numbers=Numbers.ROUNDING), ratio=ratio
    )


def advice(*trials: Compared) -> Advice:
    """What was found on the CPU under ``LIMIT``; the first: as it is."""
    return Advice(
        question=TrialQuestion(
            limit_bytes=LIMIT,
            on_gpu=False,
            pool_bytes=10 * LIMIT,
            steps=8,
            patience_seconds=60,
            only=frozenset(AlternativeAxis),
        ),
        fit=FIT,
        as_it_is=trials[0].result,
        reference=trials[0].result,
        again=None,
        trials=trials,
        not_tried=(),
        seconds=1.0,
    )
