"""The estimate of what training needs at a batch of any size, by a few sizes that were tried.

What lies there between steps is counted: weights, optimizer, data. What a step adds is the
highest of several sums, each ``constant + slope * batch``: it bends upwards, and straightens
as the batch grows. So a size that was tried needs what was seen, or more where there was time
for few steps of it and the line through two smaller ones says more: which operations run at
once differs from step to step. Between two sizes a line joins them; beyond the largest, the
line through that and the next smaller goes on.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from supervisor.wire.records.estimate_records import ModelMemory, StepMemory
from supervisor.wire.slices import PRIOR, TIGHT_PART, count

MARGIN = 0.1
"""Of a limit, left free: of what a few steps show, all that follow may need a little more.
Measured (``make bench-estimate``): up to a tenth."""

LINE_ERROR = 0.55
"""Of the peak, that a batch may need more than the line says that goes on beyond the sizes
that were tried. Measured (``make bench-estimate``, by a quarter of the batch): up to 0.53, where
convolutions of the whole batch run side by side, and those of a part do not."""

CARRIED_PART = 0.5
"""So much of what a step of the largest size adds has to have grown with its size, for a line
to carry beyond it. Where it is less readings differ by how operations happen to run at once
as much as by their size: such a line says how much there is at least."""

ENOUGH_STEPS = 16
"""Of one size, to take what they added for the most that such steps add. Where operations
have buffers of a fixed size (convolutions on a CPU), smaller sizes differ by how many of these
happened to be there at once, and a line through them leads anywhere: it said 115 MiB of steps
that were seen to take 39 (transfer, ``make bench-estimate``)."""

SUMS = 2
"""Of the gradients: before a slice, and after it."""

READ_AHEAD_BATCHES = 16
"""Where more than so many batches lie there once the data are iterated, most of that is a
shuffle's buffer, which holds so many samples whatever the batch."""

GPU_RESERVE_BYTES = 1 << 30
"""Of a GPU, left free: a context, and libraries with their workspace, which no CPU shows.
Some hundred MiB, most often."""

COMMON_GPUS_GIB = (8, 12, 16, 24, 40, 48, 80)
"""Memory of GPUs that are bought and let most often."""

REACH = 2
"""So many times the largest size that was tried a line is followed to name a batch that
fits, and not below the smallest. At small sizes what a step adds is workspace for the most
part, and readings of that vary: a line through them leads anywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEstimate:
    """What was measured, as a line through the sizes that were tried."""

    model: ModelMemory
    steps: tuple[StepMemory, ...]
    """One for each size, the smallest first; not empty."""

    @property
    def measured_batch(self) -> int:
        """The largest size that was tried."""
        return self.steps[-1].size

    @property
    def scales(self) -> bool:
        """Whether anything can be said of other sizes."""
        return len(self.steps) > 1

    @property
    def slope(self) -> float:
        """Bytes that a sample more adds to a step, beyond the largest size tried."""
        if not self.scales:
            return 0.0
        before, last = self._points[-2:]
        return max((last[1] - before[1]) / (last[0] - before[0]), 0.0)

    @property
    def _points(self) -> list[tuple[int, int]]:
        """Sizes, and what a step of each adds."""
        found: list[tuple[int, int]] = []
        for one in self.steps:
            added = one.added_bytes
            if len(found) > 1 and one.steps < ENOUGH_STEPS:
                added = max(added, int(_on_line(found[-2], found[-1], one.size)))
            found.append((one.size, added))
        return found

    def added(self, batch: int) -> int:
        """Bytes that a step of so many samples adds to what lies there between steps."""
        points = self._points
        size, added = points[-1]
        if batch >= size or not self.scales:
            return int(added + self.slope * (batch - size))
        first, second = points[:2]
        for below, above in itertools.pairwise(points):
            if below[0] <= batch:
                first, second = below, above
        return max(int(_on_line(first, second, batch)), 0)

    @property
    def weights(self) -> int:
        """Bytes of the model's variables and those of its optimizers."""
        model = self.model
        return model.parameter_bytes + model.optimizer_bytes + model.other_bytes

    def drawn(self, batch: int) -> int:
        """Bytes of the batch in work and those that are read ahead, for such batches."""
        model = self.model
        each = model.batch_bytes / model.batch
        if model.drawn_bytes > READ_AHEAD_BATCHES * model.batch_bytes:
            return max(int(model.drawn_bytes + each * (batch - model.batch)), 0)
        return int(model.drawn_bytes * batch / model.batch)

    def peak(self, batch: int) -> int:
        """Bytes in use at most, in training with such batches, all in one memory."""
        return (
            self.weights + self.model.data_bytes + self.drawn(batch) + self.added(batch)
        )

    def is_measured(self, batch: int) -> bool:
        """Whether so large a batch was tried, or a larger one."""
        return batch <= self.measured_batch or not self.scales

    def too_high(self, batch: int) -> int:
        """Bytes that such batches may need less than the line says; 0: as far as they were
        tried.

        Steps of one size differ: the flattest line is that from the most of the smaller size
        to the least of the larger, and no batch adds less than a smaller one.
        """
        if self.is_measured(batch):
            return 0
        before, last = self.steps[-2:]
        slope = (last.least_bytes - before.added_bytes) / (last.size - before.size)
        least = last.least_bytes + int(max(slope, 0.0) * (batch - last.size))
        return max(self.added(batch) - least, 0)

    def too_low(self, batch: int) -> int:
        """Bytes that such batches may need beyond what the line says; 0: as far as they
        were tried.

        At most what a step adds grows as its size does: it is the highest of several sums.
        """
        if self.is_measured(batch):
            return 0
        size, added = self._points[-1]
        most = max(added * batch // size - self.added(batch), 0)
        if self.slope * size < CARRIED_PART * added:
            return most
        return min(most, int(LINE_ERROR * self.peak(batch)))

    def device_peak(self, batch: int) -> int:
        """The same for a GPU: of the data there is only the batch in work, the others stay
        in main memory."""
        one = int(self.model.batch_bytes * batch / self.model.batch)
        return self.weights + one + self.added(batch)


def _on_line(first: tuple[int, int], second: tuple[int, int], size: int) -> float:
    """What a step of ``size`` adds, by the line through two others."""
    slope = (second[1] - first[1]) / (second[0] - first[0])
    return first[1] + slope * (size - first[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPart:
    """One row of the answer."""

    name: str
    bytes: int
    about: str


def parts(estimate: StepEstimate, batch: int) -> tuple[MemoryPart, ...]:
    """What makes up the peak at that batch: the rows add up to it.

    What a step needs at any batch is taken for gradients, as far as those of all trained
    weights go, and for workspace beyond; what grows with the batch for activations (and
    their gradients, and the workspace of their operations).
    """
    model, added = estimate.model, estimate.added(batch)
    grows = min(int(estimate.slope * batch), added)
    if not estimate.scales:
        grows = max(added - model.trained_bytes, 0)
    gradients = min(model.trained_bytes, added - grows)
    each = f"{_each(grows, batch)} a sample"
    return (
        MemoryPart(
            name="parameters",
            bytes=model.parameter_bytes,
            about=_about_parameters(model),
        ),
        MemoryPart(
            name="optimizer", bytes=model.optimizer_bytes, about=model.optimizer
        ),
        MemoryPart(
            name="gradients",
            bytes=gradients,
            about="of the trained parameters"
            if gradients == model.trained_bytes
            else "as far as they are told apart from activations",
        ),
        MemoryPart(
            name="activations",
            bytes=grows,
            about=each if grows else "not told apart from workspace at these sizes",
        ),
        MemoryPart(
            name="workspace",
            bytes=added - grows - gradients,
            about="what else a step needs, whatever the batch",
        ),
        MemoryPart(
            name="prefetched batches",
            bytes=estimate.drawn(batch),
            about="the batch in work, those read ahead, shuffles",
        ),
        MemoryPart(
            name="data",
            bytes=model.data_bytes + model.other_bytes,
            about="arrays of training data, metrics and the rest",
        ),
    )


def _about_parameters(model: ModelMemory) -> str:
    fixed = model.parameters - model.trained
    rest = f", {fixed:,} of them not trained" if fixed else ""
    return f"{model.parameters:,} numbers{rest}"


def _each(size: int, batch: int) -> str:
    each = size / batch
    return (
        f"{each / 2**20:.2f} MiB" if each >= 2**20 / 10 else f"{each / 2**10:.1f} KiB"
    )


def largest_fitting(need: Callable[[int], int], *, limit_bytes: int, start: int) -> int:
    """The largest batch whose ``need`` is within the limit, less a margin; 0: none is.

    ``need`` does not fall as the batch grows, but for what readings vary. ``start``: where
    to begin to look, 1 or more.
    """
    room = _room(limit_bytes)
    if need(1) > room:
        return 0
    fits, fails = 1, max(start, 2)
    while need(fails) <= room:
        fits, fails = fails, 2 * fails
        if fails > 2**32:
            return fits
    while fails - fits > 1:
        middle = (fits + fails) // 2
        if need(middle) <= room:
            fits = middle
        else:
            fails = middle
    return fits


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFit:
    """Whether a batch fits into a memory, and what would."""

    where: str
    limit_bytes: int
    need_bytes: int
    fits: bool
    """With what it may need at most, where it was not measured."""
    largest_batch: int | None
    """The largest that fits; 0: none does; None: it cannot be told of other batches."""
    or_more: bool = False
    """A larger one may fit as well: none so large was tried."""
    slices: int | None
    """Into how many parts a batch has to be cut to fit; 1: none; None: no number of them
    is enough, or it cannot be told."""
    least_bytes: int | None = None
    most_bytes: int | None = None
    """What it may need, where so large a batch was not measured; None: it was."""

    @property
    def may_fit(self) -> bool:
        """Whether nobody can tell, as so large a batch was not measured."""
        least = self.need_bytes if self.least_bytes is None else self.least_bytes
        return not self.fits and least <= _room(self.limit_bytes)


def fit_into(
    estimate: StepEstimate,
    batch: int,
    *,
    where: str,
    limit_bytes: int,
    device: bool = False,
) -> BatchFit:
    """Whether ``batch`` samples fit. ``device``: it is the memory of a GPU."""
    need = estimate.device_peak if device else estimate.peak

    def at_most(samples: int) -> int:
        return need(samples) + estimate.too_low(samples)

    known = estimate.is_measured(batch)
    fits = at_most(batch) <= _room(limit_bytes)
    largest = slices = None
    or_more = False
    if estimate.scales:
        there = estimate.weights + (0 if device else estimate.model.data_bytes)
        found = largest_fitting(
            at_most, limit_bytes=limit_bytes, start=estimate.measured_batch
        )
        reach = max(REACH * estimate.measured_batch, batch if fits else 0)
        largest, or_more = min(found, reach), found > reach
        if found < estimate.steps[0].size:
            largest = 0 if there > _room(limit_bytes) else None
        slices = _slices(estimate, batch, need(batch), limit_bytes=limit_bytes)
    return BatchFit(
        where=where,
        limit_bytes=limit_bytes,
        need_bytes=need(batch),
        fits=fits,
        largest_batch=largest,
        or_more=or_more,
        slices=1 if fits else slices,
        least_bytes=None if known else need(batch) - estimate.too_high(batch),
        most_bytes=None if known else at_most(batch),
    )


def _room(limit_bytes: int) -> int:
    """What of a limit may be used, with a margin."""
    return int((1 - MARGIN) * limit_bytes)


def fit_into_common(estimate: StepEstimate, batch: int) -> tuple[BatchFit, ...]:
    """Whether ``batch`` samples fit into GPUs of the usual sizes, the smallest first: for a
    machine that has none."""
    return tuple(
        fit_into(
            estimate,
            batch,
            where=f"a GPU of {size} GiB",
            limit_bytes=(size << 30) - GPU_RESERVE_BYTES,
            device=True,
        )
        for size in COMMON_GPUS_GIB
    )


def _slices(
    estimate: StepEstimate, batch: int, whole: int, *, limit_bytes: int
) -> int | None:
    """The parts of a batch of which a step needs ``whole``: only what the step adds shrinks
    with them, and the gradients of the parts are added up in memory of their own: the sum
    before a part and that after it.

    A run takes a size by what its steps may need at worst, and so it is counted here: of a
    size that was tried for a few steps nobody knows yet how they vary (``slices.PRIOR``).
    Of XLA's analysis, which JAX plans by, nothing varies. Where there was no time to try the
    whole batch, the few sizes that were tried say less of each other, too (``LINE_ERROR``).
    """
    fixed = whole - estimate.added(batch) + SUMS * estimate.model.trained_bytes
    prior = 1.0 if estimate.model.backend == "jax" else PRIOR
    prior *= 1.0 if estimate.is_measured(batch) else 1 + LINE_ERROR

    def need(samples: int) -> int:
        added = estimate.added(samples)
        at_worst = (fixed + prior * added) * (1 - MARGIN) / TIGHT_PART
        return max(fixed + added, int(at_worst))

    size = largest_fitting(
        need, limit_bytes=limit_bytes, start=min(estimate.measured_batch, batch)
    )
    if size < estimate.steps[0].size:
        return None
    return max(count(batch=batch, size=size), 2)
