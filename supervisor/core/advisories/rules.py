"""The table of advisories: what each is about, the rule, and why it has its threshold."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from supervisor.core.advisories import (
    compile_rules,
    gpu_rules,
    input_rules,
    output_rules,
    peak_rules,
    slice_rules,
)
from supervisor.core.advisories.advisory import Advisory, AdvisoryKind
from supervisor.core.advisories.run_evidence import RunEvidence
from supervisor.wire.slices import TIGHT_PART


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row."""

    kind: AdvisoryKind
    title: str
    """What is wrong, in a few words."""
    threshold: str
    """When it is told, and why not earlier."""
    advice: str
    """What helps."""
    judge: Callable[[RunEvidence], Advisory | None]


RULES: tuple[Rule, ...] = (
    Rule(
        kind=AdvisoryKind.INPUT_BOUND,
        title="steps wait for their data",
        threshold=(
            f"{input_rules.WAITED_PART:.0%} of the time or more (data that are always "
            "there would make it a third faster), "
            f"{input_rules.WAITED_SECONDS:.0f} s in all, over "
            f"{input_rules.WAITED_STEPS} steps or more; on a GPU as far as it is idle"
        ),
        advice=input_rules.READ_AHEAD,
        judge=input_rules.input_bound,
    ),
    Rule(
        kind=AdvisoryKind.RETRACING,
        title="a function is traced in every step",
        threshold=(
            f"in {compile_rules.TRACED_PART:.0%} of the steps or more, and in "
            f"{compile_rules.TRACED_STEPS} at least: batches of a few shapes are traced "
            "once each, and no more"
        ),
        advice=compile_rules.STABLE_ARGUMENTS,
        judge=compile_rules.retracing,
    ),
    Rule(
        kind=AdvisoryKind.FLOAT64,
        title="float64 where float32 was meant",
        threshold=(
            "one matrix product or convolution of the step in float64, while "
            "keras.config.floatx() is another type: Keras never makes one by itself"
        ),
        advice=compile_rules.SINGLE_PRECISION,
        judge=compile_rules.float64,
    ),
    Rule(
        kind=AdvisoryKind.CONVERTED_INPUTS,
        title="inputs are converted in every step",
        threshold=(
            "1 MiB of a batch or more comes in float64: less is hidden by what the launch "
            "of a step takes"
        ),
        advice=input_rules.NARROW,
        judge=input_rules.converted_inputs,
    ),
    Rule(
        kind=AdvisoryKind.SMALL_BATCH,
        title="a batch far below what fits",
        threshold=(
            f"the peak is {gpu_rules.SMALL_PART:.0%} of the GPU's limit or less (four times "
            "the batch is sure to fit then), the GPU is idle "
            f"{gpu_rules.IDLE_PART:.0%} of the time or more, and not for its data; after "
            f"{gpu_rules.SMALL_BATCH_STEPS} steps"
        ),
        advice=gpu_rules.LARGER,
        judge=gpu_rules.small_batch,
    ),
    Rule(
        kind=AdvisoryKind.UNUSED_GPU,
        title="training on the CPU beside a GPU",
        threshold=(
            "the framework finds no GPU, the driver lists one that the run may use, and "
            "nobody asked for the CPU (--gpus none, a memory limit of the CPU, "
            "CUDA_VISIBLE_DEVICES or JAX_PLATFORMS); from the first steps on"
        ),
        advice=gpu_rules.TOOLKIT,
        judge=gpu_rules.unused_gpu,
    ),
    Rule(
        kind=AdvisoryKind.AUTOTUNING,
        title="no memory to try faster algorithms with",
        threshold=(
            "the allocator of a GPU warns that a request was not granted which is no failure: "
            "cuDNN and XLA ask so for a workspace, and for what they compare algorithms with"
        ),
        advice=gpu_rules.LESS_SEARCH,
        judge=gpu_rules.autotuning,
    ),
    Rule(
        kind=AdvisoryKind.SHARED_GPU,
        title="another process on the GPU",
        threshold=(
            "a process of somebody else's holds 5% of the memory of a GPU of the run (a "
            f"desktop holds less), at {gpu_rules.LOOKS} looks in a row, about 20 s"
        ),
        advice=gpu_rules.ALONE,
        judge=gpu_rules.shared_gpu,
    ),
    Rule(
        kind=AdvisoryKind.THROTTLING,
        title="heat, power or a fault holds the clocks down",
        threshold=(
            f"in {gpu_rules.SLOW_TIMES:.0%} of {gpu_rules.SLOW_LOOKS} looks or more, to "
            f"{gpu_rules.SLOW_CLOCK:.0%} of the highest clock or less: the power limit alone "
            "takes a healthy board to about 90%"
        ),
        advice=gpu_rules.COOLER,
        judge=gpu_rules.throttling,
    ),
    Rule(
        kind=AdvisoryKind.PCIE_WIDTH,
        title="a PCIe link narrower than it can be",
        threshold=(
            "fewer lanes than card and slot can have, at "
            f"{gpu_rules.LOOKS} looks in a row while steps are made: an idle link may save "
            "power, one in use has no reason to"
        ),
        advice=gpu_rules.RESEAT,
        judge=gpu_rules.pcie_width,
    ),
    Rule(
        kind=AdvisoryKind.SLOW_WRITES,
        title="it logs more than the disk takes",
        threshold=(
            f"at {output_rules.WRITING_PART:.0%} of {output_rules.LOOKS} looks or more, one "
            "a second while steps are made, the training thread stands in a write"
        ),
        advice=output_rules.SELDOM,
        judge=output_rules.slow_writes,
    ),
    Rule(
        kind=AdvisoryKind.NEAR_LIMIT,
        title="slices that are more than it began with",
        threshold=(
            f"a step of a sliced batch needs more than {TIGHT_PART:.0%} of the memory limit, "
            "and not only since its operations wait for each other's memory"
        ),
        advice=slice_rules.MORE_ROOM,
        judge=slice_rules.near_limit,
    ),
    Rule(
        kind=AdvisoryKind.NEXT_PEAK,
        title="a validation, or the end of an epoch, that will not fit any more",
        threshold=(
            "what is in use between steps, and the less of what the same phase (validation, "
            "callbacks of an epoch's end, steps of samples of unlike length that are not in "
            "slices) needed beyond it the last two times, are more than the memory limit; what "
            "was seen within "
            f"{1 - TIGHT_PART:.0%} of the limit does not count, as operations wait for "
            "memory there"
        ),
        advice=peak_rules.LET_GO,
        judge=peak_rules.next_peak,
    ),
)


def advise(evidence: RunEvidence) -> tuple[Advisory, ...]:
    """What ``evidence`` shows, in the order of the table."""
    found = (rule.judge(evidence) for rule in RULES)
    return tuple(one for one in found if one is not None)


def followed(
    before: Sequence[Advisory], now: Sequence[Advisory]
) -> tuple[Advisory, ...]:
    """``now``, and those of ``before`` that hold no more, marked so."""
    kinds = {one.kind for one in now}
    gone = (replace(one, over=True) for one in before if one.kind not in kinds)
    return (*now, *gone)
