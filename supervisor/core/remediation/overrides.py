"""Overrides of a spec: all remedies in force for a run, as one value.

It is carried from attempt to attempt and stored with each of them. A remedy changes a
few of its fields; the others stay, so remedies add up. Two parts pass by themselves:
the detour, once a snapshot beyond it exists, and what is awaited before a launch.

How TensorFlow is told (``variables``), checked in its sources of 2.21:
``TF_GPU_ALLOCATOR`` in ``core/common_runtime/gpu/gpu_process_state.cc``,
``TF_CUDNN_WORKSPACE_LIMIT_IN_MB`` in ``core/kernels/conv_ops_gpu.h``,
``TF_CUDNN_USE_AUTOTUNE`` in ``xla/tsl/util/use_cudnn.cc``, XLA's
``xla_gpu_autotune_level`` in ``xla/debug_options_flags.cc``.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from supervisor.core.remediation.microbatch_planner import MicrobatchPlan

MIXED = "mixed_bfloat16"
"""Unlike float16 it needs no loss scaling, so the optimizer has the same variables
and snapshots of either precision restore in the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossRecovery:
    """How to get round the place where the loss became no number."""

    restore_before_step: int
    """Only snapshots of an earlier step are gone on from; later ones are set aside."""
    skip: tuple[int, int] | None = None
    """Batches of the steps from the first to before the second are not trained on."""
    rate_factor: float = 1.0
    """The learning rate is multiplied by this, once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """What must come true before the next attempt starts."""

    tenants_gone: bool = False
    """No process of others holds a notable part of our GPUs, or patience is over."""
    room_bytes: int | None = None
    """So much must be free where snapshots and output go."""
    disk: str | None = None
    """Where another disk is mounted that must have room; None: there is none."""
    disk_bytes: int = 0
    """So much must be free on it."""
    patience_seconds: float | None = None
    """After so long only ``lasting`` is awaited any more; None: all of it, without end."""

    @property
    def lasting(self) -> "Awaited | None":
        """What is awaited without end: the room that an attempt cannot begin without."""
        room = self.room_bytes
        return None if room is None else Awaited(room_bytes=room)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Everything that differs from what the script and its spec ask for."""

    plan: MicrobatchPlan | None = None
    """How the batch is sliced; None: it is not."""
    async_allocator: bool = False
    """CUDA's own pool (``cuda_malloc_async``) in place of TensorFlow's."""
    growth: bool = False
    """Take GPU memory as it is needed, whatever the script says."""
    headroom: float | None = None
    """This part of a GPU's memory is left to cuDNN and cuBLAS."""
    workspace_mib: int | None = None
    """Most that a cuDNN convolution may take for its workspace."""
    autotune_off: bool = False
    deterministic: bool = False
    precision: str | None = None
    """Keras' global dtype policy; None: the script's own."""
    avoid: tuple[str, ...] = ()
    """GPUs that this run stays away from."""
    recycle_bytes: int | None = None
    """A planned restart once training holds so much host memory."""
    detour: LossRecovery | None = None
    awaited: Awaited | None = None


NOTHING = Overrides()
"""No remedy is in force."""


def variables(overrides: Overrides) -> dict[str, str]:
    """Environment variables that carry it out; ``XLA_FLAGS`` are to be appended."""
    found: dict[str, str] = {}
    if overrides.async_allocator:
        found["TF_GPU_ALLOCATOR"] = "cuda_malloc_async"
    if overrides.growth:
        found["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
    if overrides.workspace_mib is not None:
        found["TF_CUDNN_WORKSPACE_LIMIT_IN_MB"] = str(overrides.workspace_mib)
    if overrides.autotune_off:
        found["TF_CUDNN_USE_AUTOTUNE"] = "0"
        found["XLA_FLAGS"] = "--xla_gpu_autotune_level=0"
    if overrides.deterministic:
        found["TF_DETERMINISTIC_OPS"] = "1"
    return found


def described(overrides: Overrides) -> dict[str, object]:
    """What it sets, by the names that people read; what it leaves alone is absent."""
    plan, detour = overrides.plan, overrides.detour
    told: dict[str, object] = {
        "slices": None if plan is None else plan.slices,
        "allocator": "cuda_malloc_async" if overrides.async_allocator else None,
        "memory growth": "on" if overrides.growth else None,
        "headroom": _percent(overrides.headroom),
        "cuDNN workspace MiB": overrides.workspace_mib,
        "autotune": "off" if overrides.autotune_off else None,
        "deterministic": "on" if overrides.deterministic else None,
        "precision": overrides.precision,
        "avoided GPUs": ", ".join(overrides.avoid) or None,
        "recycled at bytes": overrides.recycle_bytes,
    }
    if detour is not None:
        told["snapshots before step"] = detour.restore_before_step
        told["skipped steps"] = None if detour.skip is None else list(detour.skip)
        told["learning rate"] = _factor(detour.rate_factor)
    return {name: value for name, value in told.items() if value is not None}


def _percent(part: float | None) -> str | None:
    return None if part is None else f"{part:.0%}"


def _factor(factor: float) -> str | None:
    return None if factor == 1.0 else f"{factor:.0%} of it"


_BEFORE: Mapping[str, object] = {
    "slices": 1,
    "allocator": "TensorFlow's",
    "memory growth": "as the script says",
    "autotune": "on",
    "deterministic": "off",
    "precision": "the script's",
    "learning rate": "the script's",
}
"""What holds where nothing was changed, and the spec asks for nothing else."""


TO_BE_FOUND = "as many as its first steps find"
"""Slices, where the next attempt measures how many samples fit."""


def changes(
    before: Overrides, after: Overrides, *, asked: Mapping[str, object] = _BEFORE
) -> dict[str, object]:
    """What a remedy changes: {name: [before, after]}.

    ``asked``: what the spec itself asks for, by the same names.
    """
    old, new = described(before), described(after)
    plain = {**_BEFORE, **asked}
    measures = after.plan is not None and after.plan.calibrate
    told = {**new, "slices": TO_BE_FOUND} if measures else new
    return {
        name: [old.get(name, plain.get(name)), told.get(name, plain.get(name))]
        for name in [*old, *(n for n in new if n not in old)]
        if old.get(name) != new.get(name)
    }
