"""An estimate for a person, and the same as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from supervisor.core.memory.step_estimate import BatchFit, StepEstimate, parts
from supervisor.core.text.units import format_duration, format_size
from supervisor.runtime.measuring.estimation import MeasuredScript
from supervisor.wire.slices import count

JIT_ON_GPU = (
    "measured without XLA, as the script has it on a CPU; on a GPU Keras compiles such a"
    " model by itself unless compile() says otherwise: --jit measures that"
)
FIRST_FIT = (
    "this is the script's first fit: a later one, or a validation with a larger batch, may"
    " need more"
)
UNLIKE = (
    "batches are of {} shapes; measured is that with the longest samples, of {} samples"
)
ONE_SIZE = (
    "the batch cannot be cut, as something in it is not per sample: nothing is said of"
    " other batches"
)
OWN_LOOP = (
    "the first {} steps of the script's own loop were made to measure them, and what is in"
    " it is done (files, what is printed); nothing is saved, and the process ended there"
)
ONE_BATCH = "it is of this batch alone: nobody but the script can cut it"
FIRST_LOOP = (
    "this is the script's first loop: what comes after it, or after its first steps, may"
    " need more"
)
NO_GPU = (
    "no GPU here: give --memory-limit, or the size of the GPU it is for (memory.gpu of a"
    " --spec); a step needs {} of a GPU, beside 1 GiB for its context and libraries"
)
DEVICE = (
    "for a GPU the data that stay in main memory are left out, and its context and the"
    " workspace of its libraries are not in it: no CPU shows those"
)

ALL_DEVICES = (
    "the figures are of all {} devices together, which share the memory of the CPU here, with"
    " a copy of each variable for each; of one GPU nothing is said: its share is not told"
    " apart (with one device in the strategy, --batch of its part measures that)"
)
PARTED = (
    "the script's strategy has one device here; where it finds several GPUs each works on its"
    " part of the batch: --batch asks about such a part"
)

NOT_MEASURED = (
    "such lines were up to a third too low, and on a busy machine two thirds too high:"
    " --seconds gives time to measure larger batches, --batch asks about a smaller one"
)

BESIDE_A_SLICE = (
    "; each of {} samples only, as the whole batch and the sum of the gradients stay in"
    " memory beside a slice, and a run leaves room for how steps differ"
)


def notes_of(measured: MeasuredScript) -> list[str]:
    """What a person has to know of it."""
    estimate, found = measured.estimate, list(measured.notes)
    model = estimate.model
    if model.jit_possible and not model.jit:
        found.append(JIT_ON_GPU)
    if model.shapes > 1:
        found.append(UNLIKE.format(model.shapes, model.batch))
    if model.own_steps:
        loop = OWN_LOOP.format(model.own_steps)
        return [*found, loop, ONE_BATCH, DEVICE, FIRST_LOOP]
    if not estimate.scales:
        found.append(ONE_SIZE)
    if model.devices > 1:
        return [*found, ALL_DEVICES.format(model.devices), FIRST_FIT]
    if model.parted:
        found.append(PARTED)
    return [*found, DEVICE, FIRST_FIT]


def as_json(
    measured: MeasuredScript,
    batch: int,
    fits: Sequence[BatchFit],
    common: Sequence[BatchFit] = (),
) -> dict[str, Any]:
    """The documented shape. ``common``: GPUs of usual sizes, where it ``fits`` into nothing
    that is here or was asked about."""
    estimate = measured.estimate
    model, peak, known = (
        estimate.model,
        estimate.peak(batch),
        estimate.is_measured(batch),
    )
    return {
        "batch": batch,
        "peak_bytes": peak,
        "device_peak_bytes": None if model.devices > 1 else estimate.device_peak(batch),
        "devices": model.devices,
        "least_bytes": None if known else peak - estimate.too_high(batch),
        "most_bytes": None if known else peak + estimate.too_low(batch),
        "measured_batch": estimate.measured_batch,
        "backend": model.backend,
        "jit": model.jit,
        "parts": [asdict(part) for part in parts(estimate, batch)],
        "fits": [asdict(one) for one in fits],
        "common_gpus": [asdict(one) for one in common],
        "trials": [one.to_json() for one in estimate.steps],
        "model": model.to_json(),
        "notes": notes_of(measured),
        "seconds": round(measured.seconds, 1),
    }


def lines(
    measured: MeasuredScript,
    batch: int,
    fits: Sequence[BatchFit],
    common: Sequence[BatchFit] = (),
) -> Iterator[str]:
    """A table of what makes up the peak, and where it fits. ``common``: as above."""
    estimate = measured.estimate
    yield f"a step of {batch} samples, {how(estimate, batch)}"
    for part in parts(estimate, batch):
        about = f"  {part.about}" if part.about else ""
        yield f"  {part.name:20}{format_size(part.bytes):>10}{about}"
    peak, span = estimate.peak(batch), ""
    if not estimate.is_measured(batch):
        least, most = peak - estimate.too_high(batch), peak + estimate.too_low(batch)
        span = f"  not measured: {_between(least, most)}"
    yield f"  {'peak':20}{format_size(peak):>10}{span}"
    if estimate.model.devices == 1:
        yield (
            f"  {'of it on a GPU':20}{format_size(estimate.device_peak(batch)):>10}"
            "  without its context and workspace"
        )
    yield from (_fit_line(one, batch) for one in fits)
    yield from _common_lines(common, batch)
    if not estimate.is_measured(batch):
        yield f"note: {NOT_MEASURED}"
    yield from (f"note: {note}" for note in notes_of(measured))
    trained = "nothing is kept" if estimate.model.own_steps else "nothing was trained"
    yield f"took {format_duration(measured.seconds)}; {trained}"


def _common_lines(common: Sequence[BatchFit], batch: int) -> Iterator[str]:
    """That there is nothing here to judge it by, and which GPU it would take."""
    if not common:
        return
    first, needs = common[0], format_size(common[0].need_bytes)
    if first.least_bytes is not None and first.most_bytes is not None:
        needs = _between(first.least_bytes, first.most_bytes)
    yield NO_GPU.format(needs)
    smallest = next((one for one in common if one.fits), None)
    if smallest is None:
        yield _fit_line(common[-1], batch)
    elif smallest is common[0]:
        yield f"it fits {smallest.where} and more"
    else:
        less = common[common.index(smallest) - 1]
        no = "perhaps not" if less.may_fit else "not"
        yield f"it fits {smallest.where} and more, and {no} {less.where}"


def how(estimate: StepEstimate, batch: int) -> str:
    """How the peak of that batch is known."""
    sizes = ", ".join(str(one.size) for one in estimate.steps)
    if estimate.model.backend == "jax":
        line = "" if estimate.is_measured(batch) else "by the line beyond them, and "
        said = f"{line}by XLA's analysis of compiled steps (of {sizes}; none was run)"
        return f"not measured: {said}" if line else said
    if estimate.model.own_steps:
        return f"measured in {estimate.model.own_steps} steps of the script's own loop"
    if not estimate.is_measured(batch):
        return (
            f"not measured: by the line through smaller ones that were tried: {sizes}"
        )
    if batch in {one.size for one in estimate.steps}:
        return f"measured (tried: {sizes})"
    return f"by the line between those that were tried: {sizes}"


def _between(least: int, most: int) -> str:
    """What may be needed, where a line goes on beyond what was measured."""
    return f"{format_size(least)} to {format_size(most)}"


def _fit_line(one: BatchFit, batch: int) -> str:
    limit = format_size(one.limit_bytes)
    if one.fits:
        return f"{one.where}: fits into {limit}{_and(one)}"
    if one.may_fit:
        return (
            f"{one.where}: whether a batch of {batch} fits into {limit} is not known: it"
            f" may need {_between(one.least_bytes or 0, one.most_bytes or 0)}"
            f"{_instead(one, batch)}"
        )
    return f"{one.where}: a batch of {batch} does not fit into {limit}{_instead(one, batch)}"


def _and(one: BatchFit) -> str:
    if not one.largest_batch:
        return ""
    if one.or_more:
        return (
            f"; so does a batch of {one.largest_batch}, and larger ones may (--batch"
            " tries one)"
        )
    return f"; the largest batch that does is {one.largest_batch}"


def _instead(one: BatchFit, batch: int) -> str:
    if one.largest_batch is None:
        return "; of smaller ones nothing can be said (--batch tries one)"
    if one.largest_batch == 0:
        return ", nor does any other: the model itself is too large"
    return f": at most {one.largest_batch} do{_slices(one, batch)}"


def _slices(one: BatchFit, batch: int) -> str:
    """In how many the batch fits; and why in more than its largest part would make."""
    if not one.slices:
        return ""
    said = f", or {one.slices} slices of this one (trainwarden run cuts it by itself)"
    if one.largest_batch and one.slices > count(batch=batch, size=one.largest_batch):
        return f"{said}{BESIDE_A_SLICE.format(-(-batch // one.slices))}"
    return said
