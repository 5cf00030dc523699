"""Alternatives to how a script trains that need no change of it: what there is to try.

Each is one value on one axis; a combination has at most one of each axis. What is known of
an axis before anything is measured stands in ``AXES``, a row each.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from supervisor.wire.records.trial_records import TrialFit
from supervisor.wire.slices import balanced, count


class Numbers(enum.StrEnum):
    """What becomes of the numbers that training computes."""

    BITS = "bits"
    """The same losses, and the same weights after the last step."""
    ROUNDING = "rounding"
    """The same computation, summed in another order."""
    PRECISION = "lower precision"
    """The same computation, in fewer bits."""
    DIFFERENT = "different computation"
    UNKNOWN = "not compared"


class AlternativeAxis(enum.StrEnum):
    """What an alternative changes; the value is the name that ``--only`` takes."""

    SLICES = "slices"
    PRECISION = "precision"
    JIT = "jit"
    RECOMPUTATION = "recompute"
    STEPS_PER_EXECUTION = "steps_per_execution"
    OPTIMIZER = "optimizer"
    ALLOCATOR = "allocator"
    ARRAYS = "arrays"
    READ_AHEAD = "read_ahead"
    MAPS = "parallel_maps"
    CACHE = "cache"
    SIZE = "size"
    CUDNN_AUTOTUNE = "cudnn_autotune"
    CUDNN_WORKSPACE = "cudnn_workspace"
    XLA_AUTOTUNE = "xla_autotune"


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisFacts:
    """What holds of all alternatives of an axis."""

    title: str
    """With a place for the value."""
    expected: Numbers
    """Of the numbers, at best, where nothing could be compared."""
    spec: str | None
    """The key of a spec by which ``run`` does it; None: the script has to."""
    script: str
    """The line of a script that does the same, with a place for the value; empty: there is
    none."""


AXES: Mapping[AlternativeAxis, AxisFacts] = {
    AlternativeAxis.SLICES: AxisFacts(
        title="{} slices",
        expected=Numbers.ROUNDING,
        spec="compute.slice",
        script="",
    ),
    AlternativeAxis.PRECISION: AxisFacts(
        title="{}",
        expected=Numbers.PRECISION,
        spec="compute.precision",
        script='keras.config.set_dtype_policy("{}")  # before the model is made',
    ),
    AlternativeAxis.JIT: AxisFacts(
        title="jit_compile {}",
        expected=Numbers.ROUNDING,
        spec="compute.jit",
        script="model.compile(..., jit_compile={})",
    ),
    AlternativeAxis.RECOMPUTATION: AxisFacts(
        title="recomputation",
        expected=Numbers.BITS,
        spec="compute.recompute",
        script="",  # keras.RematScope fails on layers such as Dense, on TensorFlow
    ),
    AlternativeAxis.STEPS_PER_EXECUTION: AxisFacts(
        title="{} steps per execution",
        expected=Numbers.BITS,
        spec=None,
        script="model.compile(..., steps_per_execution={})",
    ),
    AlternativeAxis.OPTIMIZER: AxisFacts(
        title="optimizer {}",
        expected=Numbers.DIFFERENT,
        spec=None,
        script="model.compile(keras.optimizers.{}(...), ...)"
        "  # its learning rate has to be found anew",
    ),
    AlternativeAxis.ALLOCATOR: AxisFacts(
        title="{}",
        expected=Numbers.BITS,
        spec="environment.TF_GPU_ALLOCATOR",
        script='os.environ["TF_GPU_ALLOCATOR"] = "{}"  # before TensorFlow is imported',
    ),
    AlternativeAxis.ARRAYS: AxisFacts(
        title="arrays {}",
        expected=Numbers.BITS,
        spec=None,
        script="class Batches(keras.utils.PyDataset): ...  # whose __getitem__ cuts a batch"
        " from the arrays; model.fit(Batches())",
    ),
    AlternativeAxis.READ_AHEAD: AxisFacts(
        title="prefetch({})",
        expected=Numbers.BITS,
        spec=None,
        script="dataset.prefetch({})  # the last stage, in the place of the present one",
    ),
    AlternativeAxis.MAPS: AxisFacts(
        title="map {} in parallel",
        expected=Numbers.BITS,
        spec=None,
        script="dataset.map(..., num_parallel_calls=tf.data.AUTOTUNE)",
    ),
    AlternativeAxis.CACHE: AxisFacts(
        title="cache on disk {}",
        expected=Numbers.BITS,
        spec=None,
        script='dataset.cache("FILE")  # {}; a new FILE where the data or its code change',
    ),
    AlternativeAxis.SIZE: AxisFacts(
        title="half the size of {}",
        expected=Numbers.DIFFERENT,
        spec=None,
        script="dataset.map(...)  # which makes {} smaller: what it learns is another thing",
    ),
    AlternativeAxis.CUDNN_AUTOTUNE: AxisFacts(
        title="no autotuning of cuDNN",
        expected=Numbers.ROUNDING,
        spec="environment.TF_CUDNN_USE_AUTOTUNE",
        script="",
    ),
    AlternativeAxis.CUDNN_WORKSPACE: AxisFacts(
        title="{} MiB of workspace for cuDNN",
        expected=Numbers.ROUNDING,
        spec="environment.TF_CUDNN_WORKSPACE_LIMIT_IN_MB",
        script="",
    ),
    AlternativeAxis.XLA_AUTOTUNE: AxisFacts(
        title="{}",
        expected=Numbers.ROUNDING,
        spec="environment.XLA_FLAGS",
        script="",
    ),
}

ON, OFF = "on", "off"
MIXED_BFLOAT16, MIXED_FLOAT16 = "mixed_bfloat16", "mixed_float16"
ASYNC_ALLOCATOR = "cuda_malloc_async"
STREAMED, PARALLEL = "streamed", "calls"
ONE_AHEAD, AUTOTUNE = "1", "tf.data.AUTOTUNE"
TUNED = -1
"""As many as TensorFlow likes."""
WORKSPACE_MIB = 64
"""That cuDNN is left for a convolution in a trial; TensorFlow's own is 4 GiB."""
LESS_XLA_TUNING = "--xla_gpu_autotune_level=0"
STEPS_IN_A_CALL = 4
"""That are tried of ``steps_per_execution``: the step of a small model is mostly its call."""
LEAN_OPTIMIZERS = ("SGD", "Lion", "Adafactor")
"""What they keep of each weight: a momentum, a momentum, next to nothing; Adam keeps two."""
KEEPS_LITTLE = frozenset({"SGD", "Lion", "Adafactor"})
NOTABLE_STATE = 0.03
"""Of the peak: an optimizer that keeps less is not worth another."""
ENVIRONMENT = "environment."
"""How the key of a spec for a variable begins."""
MOST_SLICES = 256
"""From as many on no more are tried; the last may be more than these where the batch
cannot be shared out evenly before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """One change, tried alone or in a combination."""

    axis: AlternativeAxis
    value: str

    @property
    def title(self) -> str:
        """As people read it."""
        return AXES[self.axis].title.format(self.value).rstrip()

    @property
    def expected(self) -> Numbers:
        """Of the numbers, at best."""
        return AXES[self.axis].expected


Combination = tuple[Alternative, ...]
"""At most one of each axis, in the order of ``AlternativeAxis``; empty: the script as it is."""
AS_IT_IS: Combination = ()


def combined(parts: Sequence[Alternative]) -> Combination:
    """``parts`` in order. Raises ValueError: two are of one axis."""
    order = list(AlternativeAxis)
    found = tuple(sorted(parts, key=lambda one: order.index(one.axis)))
    if len({one.axis for one in found}) < len(found):
        message = "a combination has one alternative of each axis at most"
        raise ValueError(message)
    return found


def title_of(combination: Combination) -> str:
    """As people read it."""
    return " + ".join(one.title for one in combination) or "as it is"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotTried:
    """An alternative that is left out, and why, in half a sentence."""

    alternative: Alternative
    because: str
    unasked: bool = True
    """Whether it is told to who did not ask for it by its name."""


def of_slices(slices: int) -> Alternative:
    """So many slices."""
    return Alternative(axis=AlternativeAxis.SLICES, value=str(slices))


def slices_in(combination: Combination) -> int:
    """1: the batch is whole."""
    found = [
        int(one.value) for one in combination if one.axis is AlternativeAxis.SLICES
    ]
    return found[0] if found else 1


def has(combination: Combination, axis: AlternativeAxis) -> bool:
    """Whether one of ``axis`` is in it."""
    return any(one.axis is axis for one in combination)


def read_ahead_of(combination: Combination) -> int | None:
    """Batches that are read ahead, ``TUNED``: as many as TensorFlow likes; None: as the
    script has it."""
    for one in combination:
        if one.axis is AlternativeAxis.READ_AHEAD:
            return TUNED if one.value == AUTOTUNE else int(one.value)
    return None


def variables_of(combination: Combination) -> dict[str, str]:
    """What is done by a variable of the environment, by its name."""
    keys = [(AXES[one.axis].spec or "", one.value) for one in combination]
    return {
        key.removeprefix(ENVIRONMENT): value
        for key, value in keys
        if key.startswith(ENVIRONMENT)
    }


def size_of_slice(batch: int, slices: int) -> int | None:
    """Samples in each of so many slices; None: the batch has no so many."""
    size = balanced(batch=batch, size=-(-batch // slices))
    return size if count(batch=batch, size=size) == slices else None


def to_try(
    fit: TrialFit, peak_bytes: int | None
) -> tuple[list[Alternative], list[NotTried]]:
    """The alternatives beside slices for a script whose ``fit`` was reached, and those
    that make no sense for it. ``peak_bytes``: of it as it is; None: not known."""
    tried: list[Alternative] = []
    left: list[NotTried] = []
    for alternative in _all(fit):
        because = _why_not(alternative, fit, peak_bytes)
        if because is None:
            tried.append(alternative)
        else:
            unasked = alternative.axis not in _RULES or _is_of_one_size(
                alternative, fit
            )
            left.append(
                NotTried(alternative=alternative, because=because, unasked=unasked)
            )
    return tried, left


def _all(fit: TrialFit) -> list[Alternative]:
    return [
        Alternative(axis=AlternativeAxis.PRECISION, value=MIXED_BFLOAT16),
        Alternative(axis=AlternativeAxis.PRECISION, value=MIXED_FLOAT16),
        Alternative(axis=AlternativeAxis.JIT, value=OFF if fit.jit else ON),
        Alternative(axis=AlternativeAxis.RECOMPUTATION, value=ON),
        Alternative(
            axis=AlternativeAxis.STEPS_PER_EXECUTION, value=str(STEPS_IN_A_CALL)
        ),
        *(
            Alternative(axis=AlternativeAxis.OPTIMIZER, value=name)
            for name in LEAN_OPTIMIZERS
        ),
        Alternative(axis=AlternativeAxis.ALLOCATOR, value=ASYNC_ALLOCATOR),
        *_of_data(fit),
        Alternative(axis=AlternativeAxis.CUDNN_AUTOTUNE, value="0"),
        Alternative(axis=AlternativeAxis.CUDNN_WORKSPACE, value=str(WORKSPACE_MIB)),
        Alternative(axis=AlternativeAxis.XLA_AUTOTUNE, value=LESS_XLA_TUNING),
    ]


def _of_data(fit: TrialFit) -> list[Alternative]:
    little = fit.read_ahead in {0, 1}
    return [
        Alternative(axis=AlternativeAxis.ARRAYS, value=STREAMED),
        Alternative(
            axis=AlternativeAxis.READ_AHEAD, value=AUTOTUNE if little else ONE_AHEAD
        ),
        Alternative(axis=AlternativeAxis.MAPS, value=PARALLEL),
        Alternative(axis=AlternativeAxis.CACHE, value=fit.cache_place),
        Alternative(axis=AlternativeAxis.SIZE, value=fit.sizes or "inputs"),
    ]


def _why_not(
    alternative: Alternative, fit: TrialFit, peak_bytes: int | None
) -> str | None:
    """Why it makes no sense there; None: it does."""
    match alternative.axis:
        case AlternativeAxis.PRECISION if alternative.value == fit.precision:
            return "the script computes so already"
        case AlternativeAxis.JIT if not (fit.jit or fit.jit_possible):
            return "Keras does not compile such a model"
        case AlternativeAxis.STEPS_PER_EXECUTION:
            return _why_not_in_one_call(fit)
        case AlternativeAxis.OPTIMIZER:
            return _why_not_leaner(fit, peak_bytes)
        case AlternativeAxis.ALLOCATOR if fit.device != "GPU":
            return "this is an allocator of GPUs, and training is on the CPU"
        case axis:
            rule = _RULES.get(axis)
            return None if rule is None else rule(alternative, fit, peak_bytes)


def _why_not_streamed(
    _alternative: Alternative, fit: TrialFit, peak_bytes: int | None
) -> str | None:
    notable = NOTABLE_STATE * (peak_bytes or 0)
    if fit.array_bytes == 0 or fit.array_bytes < notable:
        return "it holds no arrays of data, or small ones"
    return None


def _why_not_read_ahead(
    alternative: Alternative, fit: TrialFit, _peak_bytes: int | None
) -> str | None:
    if fit.read_ahead is None:
        return "no pipeline of the script's own says how much is read ahead"
    if fit.device == "GPU" and alternative.value == ONE_AHEAD:
        return "batches that are read ahead lie in main memory"
    return None


def _why_no_maps(
    _alternative: Alternative, fit: TrialFit, _peak_bytes: int | None
) -> str | None:
    if fit.lone_maps:
        return None
    return "there is no map whose calls TensorFlow makes one after another"


def _why_no_cache(
    _alternative: Alternative, fit: TrialFit, _peak_bytes: int | None
) -> str | None:
    if fit.cache_place:
        return None
    return (
        "no pipeline of the script's own reads or computes what is the same in each pass,"
        " has no cache of it, and is small enough to be looked at"
    )


def _why_not_smaller(
    alternative: Alternative, fit: TrialFit, _peak_bytes: int | None
) -> str | None:
    if _is_of_one_size(alternative, fit):
        return f"the model is built for {fit.fixed_size} alone"
    if fit.sizes:
        return None
    return "the model does not say that it takes images or sequences of any size"


def _is_of_one_size(alternative: Alternative, fit: TrialFit) -> bool:
    sized = alternative.axis is AlternativeAxis.SIZE
    return sized and not fit.sizes and bool(fit.fixed_size)


def _why_not_on_gpu(
    alternative: Alternative, fit: TrialFit, _peak_bytes: int | None
) -> str | None:
    if fit.device != "GPU":
        return "this is a setting of GPUs, and training is on the CPU"
    if alternative.axis is not AlternativeAxis.XLA_AUTOTUNE:
        return None if fit.convolutions else "the model has no convolution"
    if fit.xla_flags:
        return "XLA_FLAGS is set already"
    return None if fit.jit else "steps are not compiled by XLA"


_RULES: Mapping[
    AlternativeAxis, Callable[[Alternative, TrialFit, int | None], str | None]
] = {
    AlternativeAxis.ARRAYS: _why_not_streamed,
    AlternativeAxis.READ_AHEAD: _why_not_read_ahead,
    AlternativeAxis.MAPS: _why_no_maps,
    AlternativeAxis.CACHE: _why_no_cache,
    AlternativeAxis.SIZE: _why_not_smaller,
    AlternativeAxis.CUDNN_AUTOTUNE: _why_not_on_gpu,
    AlternativeAxis.CUDNN_WORKSPACE: _why_not_on_gpu,
    AlternativeAxis.XLA_AUTOTUNE: _why_not_on_gpu,
}
"""Of what makes sense for some scripts only: why not for this one; None: it does."""


def _why_not_in_one_call(fit: TrialFit) -> str | None:
    if fit.steps_per_execution > 1:
        return f"the script has {fit.steps_per_execution} steps per execution already"
    if fit.pass_steps is not None and fit.pass_steps < STEPS_IN_A_CALL:
        return f"an epoch has only {fit.pass_steps} steps"
    return None


def _why_not_leaner(fit: TrialFit, peak_bytes: int | None) -> str | None:
    if fit.own_step or not fit.optimizer:
        return "which optimizers such a model takes is not known"
    if fit.optimizer in KEEPS_LITTLE:
        return f"{fit.optimizer} keeps little already"
    if peak_bytes is not None and fit.optimizer_bytes < NOTABLE_STATE * peak_bytes:
        return f"{fit.optimizer} keeps less than {NOTABLE_STATE:.0%} of the peak"
    return None
