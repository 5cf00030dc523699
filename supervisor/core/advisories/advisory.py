"""One advisory: what was measured, what it means, what to do. It changes nothing."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class AdvisoryKind(enum.StrEnum):
    """What a run may be told of."""

    INPUT_BOUND = "input_bound"
    RETRACING = "retracing"
    FLOAT64 = "float64"
    CONVERTED_INPUTS = "converted_inputs"
    SMALL_BATCH = "small_batch"
    UNUSED_GPU = "unused_gpu"
    AUTOTUNING = "autotuning"
    SHARED_GPU = "shared_gpu"
    THROTTLING = "throttling"
    PCIE_WIDTH = "pcie_width"
    SLOW_WRITES = "slow_writes"
    NEAR_LIMIT = "near_limit"
    NEXT_PEAK = "next_peak"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advisory:
    """A rule that held for one attempt."""

    kind: AdvisoryKind
    sentence: str
    """What was measured, and what it means."""
    advice: str
    """What to do about it."""
    figures: Mapping[str, float] = field(default_factory=dict[str, float])
    """The evidence, in base units."""
    over: bool = False
    """Whether it held earlier, and does no more."""
