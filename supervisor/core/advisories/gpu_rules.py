"""Rules about the GPUs of a run: a small batch, other tenants, slow clocks, narrow links."""

from supervisor.core.advisories.advisory import Advisory, AdvisoryKind
from supervisor.core.advisories.input_rules import WAITED_PART
from supervisor.core.advisories.run_evidence import RunEvidence
from supervisor.core.text.units import format_size

LOOKS = 10
"""In a row, about 20 s: a program that only asks the driver, or a test of somebody else's,
has come and gone by then."""
SMALL_PART = 0.25
"""Of the limit: as part of a peak stays the same whatever the batch, four times the batch
is sure to fit then."""
IDLE_PART = 0.2
"""Of the time without a kernel: a GPU that is never idle gains little by a larger batch."""
SMALL_BATCH_STEPS = 100
"""A peak that so many steps have not moved is that of the batch."""
SLOW_LOOKS = 30
"""A minute: clocks come down for a moment in every run."""
SLOW_TIMES = 0.5
"""Of the looks: what slows a run is there most of the time."""
SLOW_CLOCK = 0.85
"""Of the highest clock: under full load the power limit alone takes a healthy board to
about nine tenths of it."""

LARGER = (
    "A larger batch uses the GPU better. It changes the training: fewer updates an epoch, so "
    "the learning rate usually has to rise with it. Or run a second job on the same GPU, with "
    "a memory limit for each."
)
TOOLKIT = (
    "trainwarden check says which library of CUDA is missing or too old. TensorFlow's come "
    "with pip install 'tensorflow[and-cuda]', those of JAX with 'jax[cuda12]'; PyTorch has "
    "builds of its own for CUDA. If the CPU is meant, say so by --gpus none."
)
LESS_SEARCH = (
    "A smaller batch, or slices of it, leave room for it. TF_CUDNN_WORKSPACE_LIMIT_IN_MB "
    "bounds what an algorithm may take, TF_CUDNN_USE_AUTOTUNE=0 and "
    "XLA_FLAGS=--xla_gpu_autotune_level=0 end the search (a spec's [environment]); "
    "trainwarden advise measures what each of them costs and gives."
)
ALONE = (
    "Give the run a GPU of its own (--gpus), or ask whoever runs the other process. What it "
    "holds is missing here, and both take turns at the GPU."
)
COOLER = (
    "Look at fans, air flow and the temperature of the room, and at the power limit "
    "(nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE); a power limit can be raised with "
    "nvidia-smi -pl where the board allows it. Fewer GPUs at once also help a hot box."
)
RESEAT = (
    "All data go over that link. Shut the machine down and seat the card and its riser anew, "
    "or take a slot with all lanes (its handbook says which); lanes shared with another card "
    "or drive are halved as well."
)


def small_batch(evidence: RunEvidence) -> Advisory | None:
    """A batch far below what fits, on a GPU that is often idle, though not for its data."""
    memory, steps, busy = evidence.memory, evidence.steps, evidence.gpus.busy
    if memory is None or steps is None or steps.on_cpu or busy is None:
        return None
    if evidence.gpus.busy_looks < LOOKS or steps.steps < SMALL_BATCH_STEPS:
        return None
    if 1.0 - busy < IDLE_PART or memory.peak_bytes > SMALL_PART * memory.limit_bytes:
        return None
    if steps.wait_seconds >= WAITED_PART * steps.data_seconds > 0.0:
        return None
    times = int(memory.limit_bytes / max(memory.peak_bytes, 1))
    return Advisory(
        kind=AdvisoryKind.SMALL_BATCH,
        sentence=(
            f"the batch of {memory.batch} samples needs {format_size(memory.peak_bytes)} "
            f"of {format_size(memory.limit_bytes)}, and the GPU is idle {1 - busy:.0%} of "
            f"the time: {times} times the batch would fit"
        ),
        advice=LARGER,
        figures={
            "batch_samples": memory.batch,
            "peak_bytes": memory.peak_bytes,
            "limit_bytes": memory.limit_bytes,
            "idle_ratio": round(1 - busy, 4),
        },
    )


def unused_gpu(evidence: RunEvidence) -> Advisory | None:
    """Training is on the CPU, as the framework finds no GPU where there is one."""
    steps, usable = evidence.steps, evidence.gpus.usable
    if steps is None or not steps.finds_no_gpu or not usable:
        return None
    listed = "a GPU" if usable == 1 else f"{usable} GPUs"
    return Advisory(
        kind=AdvisoryKind.UNUSED_GPU,
        sentence=(
            f"training is on the CPU: the framework finds no GPU, and the driver lists "
            f"{listed} that this run may use"
        ),
        advice=TOOLKIT,
        figures={"gpus": usable},
    )


def autotuning(evidence: RunEvidence) -> Advisory | None:
    """Searches for faster algorithms find no room."""
    asked = evidence.workspace
    if not asked.count:
        return None
    times = "once" if asked.count == 1 else f"{asked.count} times"
    return Advisory(
        kind=AdvisoryKind.AUTOTUNING,
        sentence=(
            f"cuDNN or XLA asked {times} for memory to try faster algorithms with, up to "
            f"{format_size(asked.largest_bytes)}, and did not get it: they do without, "
            "which may be slower, and what they do get is missing for the model"
        ),
        advice=LESS_SEARCH,
        figures={"requests": asked.count, "largest_bytes": asked.largest_bytes},
    )


def shared_gpu(evidence: RunEvidence) -> Advisory | None:
    """Somebody else computes on the GPU."""
    other = evidence.gpus.tenant
    if other is None or evidence.gpus.shared_looks < LOOKS:
        return None
    return Advisory(
        kind=AdvisoryKind.SHARED_GPU,
        sentence=(
            f"another process, {other.name} (pid {other.pid}), holds "
            f"{format_size(other.bytes)} of {other.gpu}, which this run uses"
        ),
        advice=ALONE,
        figures={"other_bytes": other.bytes, "other_pid": other.pid},
    )


def throttling(evidence: RunEvidence) -> Advisory | None:
    """The clocks of the GPU are held down, and so is the run."""
    gpus = evidence.gpus
    slowed = gpus.slowed_looks
    if gpus.looks < SLOW_LOOKS or slowed < SLOW_TIMES * gpus.looks:
        return None
    clock = gpus.clock_sum / slowed
    if clock > SLOW_CLOCK:
        return None
    why = ", ".join(sorted(gpus.slowed_by)).replace("_", " ")
    return Advisory(
        kind=AdvisoryKind.THROTTLING,
        sentence=(
            f"the GPU runs at {clock:.0%} of its clock in {slowed / gpus.looks:.0%} of the "
            f"looks at it; the driver's reason: {why}"
        ),
        advice=COOLER,
        figures={
            "clock_ratio": round(clock, 4),
            "slowed_ratio": round(slowed / gpus.looks, 4),
        },
    )


def pcie_width(evidence: RunEvidence) -> Advisory | None:
    """The link to the GPU is narrower than card and slot can make it."""
    lanes = evidence.gpus.lanes
    if lanes is None or evidence.gpus.narrow_looks < LOOKS:
        return None
    now, most = lanes
    return Advisory(
        kind=AdvisoryKind.PCIE_WIDTH,
        sentence=(
            f"the PCIe link of the GPU has {now} of the {most} lanes that it can have: data "
            f"reach it at {now / most:.0%} of the speed"
        ),
        advice=RESEAT,
        figures={"lanes": now, "most_lanes": most},
    )
