"""The table of remedies: for every cause its escalation, and when another one applies.

Every remedy step is used only if those before it did not help, do not apply, or change
nothing any more. What alters the computation needs the spec's word.
"""

from collections.abc import Mapping
from dataclasses import replace

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.result import RemedyKind
from supervisor.core.remediation.actions import (
    another_gpu,
    around_the_loss,
    before_the_loss_was_lost,
    recycled,
    settings,
    smaller_slices,
    wait_for_room,
    wait_for_tenants,
    without_tenants,
)
from supervisor.core.remediation.conditions import (
    aged_process,
    another_step,
    crowded_whole,
    device_full,
    elsewhere,
    foreign_tenant,
    leak_seen,
    leaking,
    near_the_limit,
    no_gpu,
    on_a_gpu,
    same_step_again,
    scripts_precision,
    unsliced,
)
from supervisor.core.remediation.escalation import (
    Allow,
    EscalationPlan,
    FailureContext,
    RemedyStep,
)
from supervisor.core.remediation.overrides import MIXED
from supervisor.core.remediation.subject_remedies import for_subject
from supervisor.core.text.units import format_size

BESIDE_SLICES = (
    "more slices cannot help: a step filled about {} of the limit of {} however small its"
    " slices were; what does not shrink with them (weights, the state of the optimizer, the"
    " sum of gradients, the whole batch, data, buffers of fixed size) leaves no room; a smaller model, an optimizer that keeps less (SGD, Lion,"
    " Adafactor), mixed precision (remedies.mixed_precision = true in the spec) or a larger"
    " limit can"
)
WORKSPACE_MIB = 256
"""cuDNN's own default in TensorFlow is 4 GiB (``conv_ops_gpu.h``)."""
HEADROOM = 0.1
"""Part of a GPU left to the libraries: handles, workspaces and the CUDA context take
some hundred MiB each."""


AGAIN = RemedyStep(
    name="again",
    kind=RemedyKind.RESTART,
    does="restart from the newest snapshot",
    because="a fresh process may not meet it again",
    uses=None,
)
FRESH = replace(
    AGAIN,
    name="fresh_whole",
    because="whole steps had fitted before: a fresh process has given back what had leaked",
)
"""Where the batch is not sliced."""
SMALLER = RemedyStep(
    name="smaller",
    kind=RemedyKind.MICROBATCH,
    does="smaller slices, the same effective batch",
    because="smaller slices need less memory at once",
    change=smaller_slices,
    uses=None,
)
PLANNED = replace(SMALLER, name="planned", does="slices planned by a memory model", uses=2)  # fmt: skip
ANOTHER_GPU = RemedyStep(
    name="another_gpu",
    kind=RemedyKind.ANOTHER_GPU,
    does="stay away from that GPU",
    because="another GPU may not have the fault",
    change=another_gpu,
    when="there is another",
)
GROWTH = RemedyStep(
    name="growth",
    kind=RemedyKind.SETTINGS,
    does=f"memory growth, and {HEADROOM:.0%} of the GPU left to the libraries",
    because="cuDNN and cuBLAS allocate outside of the framework's pool",
    change=settings(growth=True, headroom=HEADROOM),
)
WORKSPACE = RemedyStep(
    name="workspace",
    kind=RemedyKind.SETTINGS,
    does=f"cuDNN workspaces of at most {WORKSPACE_MIB} MiB, autotuning off",
    because="autotuning tries algorithms that want workspaces of gigabytes",
    change=settings(workspace_mib=WORKSPACE_MIB, autotune_off=True),
)
LIBRARY_MEMORY = EscalationPlan(
    title="a library that found no memory for itself",
    remedy_steps=(GROWTH, WORKSPACE, SMALLER),
    stop="the libraries find no memory, not even beside the smallest slices",
    climbs=True,
)
FAULT = EscalationPlan(
    title="a kernel that faulted (cublas, far from the memory limit, as well)",
    remedy_steps=(
        replace(AGAIN, name="same_again", uses=1),
        RemedyStep(
            name="deterministic",
            kind=RemedyKind.SETTINGS,
            does="deterministic algorithms, autotuning off",
            because="the same step failed again: another algorithm may not",
            change=settings(deterministic=True, autotune_off=True),
            when="the same step failed again",
            holds=same_step_again,
        ),
        ANOTHER_GPU,
        AGAIN,
    ),
    stop="neither other algorithms nor another GPU helped: report it upstream, with "
    "the step, the log and the versions",
    climbs=True,
)
BAD_GPU = EscalationPlan(
    title="a GPU that failed",
    remedy_steps=(ANOTHER_GPU,),
    stop="a GPU failed, and no other one is known: have it checked; if it is kept out of "
    "use, put it back with `trainwarden quarantine --return GPU` then",
    quarantines=True,
)
SCRIPT = EscalationPlan(
    title="the script's own error",
    remedy_steps=(
        replace(
            AGAIN,
            when="training had begun, and it was not the same step the last time",
            holds=another_step,
            uses=1,
        ),
    ),
    stop="a restart would end the same way",
)
TENANT = EscalationPlan(
    title="a GPU that somebody else uses too",
    remedy_steps=(
        RemedyStep(
            name="wait",
            kind=RemedyKind.WAIT,
            does="wait until the memory is free, for as long as patience lasts",
            because="somebody else holds memory on the GPU",
            change=wait_for_tenants,
        ),
        replace(
            ANOTHER_GPU,
            name="free_gpu",
            because="another GPU is free",
            change=without_tenants,
            when="another one is free",
        ),
        SMALLER,
    ),
    stop="not even one sample at a time fits beside what others hold on the GPU",
    climbs=True,
)
_WAIT, _FREE_GPU = TENANT.remedy_steps[:2]
FULL = EscalationPlan(
    title="a GPU that others had filled",
    remedy_steps=(
        replace(_WAIT, when="the driver names them", holds=foreign_tenant),
        replace(
            _FREE_GPU,
            when="the driver names them, and another one is free",
            holds=foreign_tenant,
        ),
        replace(AGAIN, because="others had filled the GPU, and may be gone by then"),
    ),
    stop="others had filled the GPU each time: end them, or give the job another GPU",
)
PLAIN = EscalationPlan(
    title="a crash that a fresh process may not repeat",
    remedy_steps=(AGAIN,),
    stop="restarts did not help",
)

ESCALATIONS: Mapping[Cause, EscalationPlan] = {
    Cause.NONE: PLAIN,
    Cause.DEVICE_OOM: EscalationPlan(
        title="too little device memory",
        remedy_steps=(
            replace(
                AGAIN,
                name="fresh",
                because="a fresh process has given back what had leaked",
                uses=2,
                when="memory had grown from step to step: a leak",
                holds=leaking,
            ),
            PLANNED,
            RemedyStep(
                name="mixed_precision",
                kind=RemedyKind.ALTER,
                does=f"compute in {MIXED}",
                because="activations in 16 bits take half of the memory",
                change=settings(precision=MIXED),
                when="the spec sets no compute.precision",
                holds=scripts_precision,
                needs=frozenset({Allow.MIXED_PRECISION}),
            ),
            SMALLER,
        ),
        stop="not even one sample at a time fits below the memory limit",
        climbs=True,
    ),
    Cause.DEVICE_OOM_FRAGMENTATION: EscalationPlan(
        title="device memory in pieces",
        remedy_steps=(
            replace(
                AGAIN,
                name="fresh",
                because="a fresh process has its memory in one piece",
                uses=1,
                when="it was not one already",
                holds=aged_process,
            ),
            RemedyStep(
                name="async_allocator",
                kind=RemedyKind.SETTINGS,
                does="CUDA's own pool (cuda_malloc_async)",
                because="CUDA's pool maps pieces together, so it does not fragment",
                change=settings(async_allocator=True),
                when="on a GPU",
                holds=on_a_gpu,
            ),
            SMALLER,
        ),
        stop="not even one sample at a time finds a block that is large enough",
        climbs=True,
    ),
    Cause.HOST_OOM: EscalationPlan(
        title="too little main memory",
        remedy_steps=(
            RemedyStep(
                name="recycle",
                kind=RemedyKind.SETTINGS,
                does="planned restarts before it runs out, nothing lost",
                because="it grows with every step: a leak",
                change=recycled,
                when="it was killed for memory twice, each time after training, and not at one step "
                "whatever was made before it",
                holds=leak_seen,
                uses=None,
            ),
            replace(AGAIN, because="a fresh process has given its host memory back"),
        ),
        stop="it runs out of main memory every time",
    ),
    Cause.CUDNN_ALLOC: LIBRARY_MEMORY,
    Cause.CUDNN_INIT: LIBRARY_MEMORY,
    Cause.CUBLAS: LIBRARY_MEMORY,
    Cause.CUDNN_EXEC: FAULT,
    Cause.CUDA_FAULT: FAULT,
    Cause.GPU_HARDWARE: BAD_GPU,
    Cause.UNKILLABLE: EscalationPlan(
        title="a process that hangs in the kernel",
        remedy_steps=(
            ANOTHER_GPU,
            replace(AGAIN, when="no GPU is in use", holds=no_gpu),
        ),
        stop="a process hangs in the kernel, which only a reboot ends, and no other GPU "
        "is known",
        quarantines=True,
    ),
    Cause.VERSION_MISMATCH: SCRIPT,
    Cause.USER_ERROR: SCRIPT,
    Cause.NCCL: PLAIN,
    Cause.NON_FINITE_LOSS: EscalationPlan(
        title="a loss that became NaN or infinite",
        remedy_steps=(
            RemedyStep(
                name="rollback",
                kind=RemedyKind.ROLLBACK,
                does="go on from a snapshot of before it",
                because="the run goes back to a snapshot of before the loss became NaN "
                "or infinite; if a fault of the hardware did that, it does not come again",
                change=before_the_loss_was_lost,
                when="it did not become so there in the attempt before",
                holds=elsewhere,
            ),
            RemedyStep(
                name="around",
                kind=RemedyKind.ALTER,
                does="as before, without these batches, at a lower learning rate "
                "(whichever is allowed)",
                because="the same batches at the same learning rate would make the loss "
                "NaN or infinite again",
                change=around_the_loss,
                needs=frozenset({Allow.SKIP_BATCHES, Allow.LOWER_RATE}),
            ),
        ),
        stop="the loss became NaN or infinite again at about the same step: look at the "
        "batches before it and at the learning rate",
    ),
    Cause.DATA_ERROR: EscalationPlan(
        title="data, or a file, that cannot be read or written",
        remedy_steps=(
            replace(
                AGAIN,
                because="storage may have been away for a moment",
                when="it was not the same step the last time",
                holds=another_step,
                uses=1,
            ),
        ),
        stop="the same data or file cannot be read or written again",
    ),
    Cause.DISK_FULL: EscalationPlan(
        title="a full disk",
        remedy_steps=(
            RemedyStep(
                name="room",
                kind=RemedyKind.WAIT,
                does="free what is ours and of no more use, wait for room",
                because="it goes on as soon as there is room on the disk that was full, and "
                "where its snapshots and output go",
                change=wait_for_room,
                uses=None,
            ),
        ),
        stop="the disk fills up again at once",
    ),
    Cause.STALLED: replace(
        PLAIN,
        title="alive without progress: stacks of all threads are written down, it is killed",
        stop="it hangs every time",
    ),
    Cause.NATIVE_CRASH: PLAIN,
    Cause.PREEMPTED: replace(
        PLAIN,
        title="ended from outside",
        remedy_steps=(
            replace(
                AGAIN,
                because="nothing was wrong with training",
            ),
        ),
    ),
    Cause.UNKNOWN: PLAIN,
}
"""By cause; every cause has one."""


def escalation_for(case: FailureContext) -> EscalationPlan:
    """The escalation of the case's cause, or the one of what stands behind it."""
    cause = case.diagnosis.cause
    if cause is Cause.DEVICE_OOM and (device_full(case) or crowded_whole(case)):
        return FULL
    if cause in {Cause.DEVICE_OOM, Cause.DEVICE_OOM_FRAGMENTATION, *_LIBRARY}:
        if foreign_tenant(case):
            return for_subject(TENANT, case)
        if cause is Cause.CUBLAS and not near_the_limit(case):
            return FAULT
        return for_subject(_beside_slices(ESCALATIONS[cause], case), case)
    return ESCALATIONS[cause]


def _beside_slices(escalation: EscalationPlan, case: FailureContext) -> EscalationPlan:
    """``escalation``, which ends with the figures where no slices are small enough."""
    part = unsliced(case)
    if part is None:
        return escalation
    needed, limit = format_size(part.bytes), format_size(part.limit_bytes)
    return replace(escalation, stop=BESIDE_SLICES.format(needed, limit))


_LIBRARY = frozenset(
    cause for cause, one in ESCALATIONS.items() if one is LIBRARY_MEMORY
)
