"""Rules about what a run writes while it trains."""

from supervisor.core.advisories.advisory import Advisory, AdvisoryKind
from supervisor.core.advisories.run_evidence import RunEvidence

WRITING_PART = 0.25
"""Of the looks: as for data, without these writes the run would be a third faster or more."""
LOOKS = 20
"""One a second: with fewer, a run that writes for a twentieth of its time would be taken
for one that writes for a quarter by chance (now it is once in 400 times)."""

SELDOM = (
    "Write less often: log every hundredth step, or once an epoch; do not flush or fsync "
    "after each line; let TensorBoard write by epoch (update_freq='epoch'). Or write to a "
    "local disk, and copy what it holds when the run is over."
)


def slow_writes(evidence: RunEvidence) -> Advisory | None:
    """The training thread stands in writes of the script."""
    steps = evidence.steps
    if steps is None or steps.write_looks < LOOKS:
        return None
    part = steps.writing_looks / steps.write_looks
    if part < WRITING_PART:
        return None
    where = f" to {steps.written_file}" if steps.written_file else ""
    return Advisory(
        kind=AdvisoryKind.SLOW_WRITES,
        sentence=(
            f"at {part:.0%} of {steps.write_looks} looks, one a second, the training "
            f"thread stood in a write{where}: it waits for whoever takes what is written"
        ),
        advice=SELDOM,
        figures={
            "writing_looks": steps.writing_looks,
            "looks": steps.write_looks,
        },
    )
