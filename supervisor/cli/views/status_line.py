"""The status line of a run in a terminal: what is known of it now, in the width there is.

Pure: a value to a line. Where all of it is too wide, what is least worth goes first; how far
training is, how long it still takes and that nothing comes go last.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from supervisor.cli.views.progress import (
    SILENT_SECONDS,
    USUAL_STEPS,
    doing,
    loss_beside_step,
    message_beside_state,
    phase_in_brackets,
    short_of_memory,
    slice_trial,
    trains_on,
)
from supervisor.core.jobs.job_status import JobState, JobStatus
from supervisor.core.text.units import format_duration, format_size
from supervisor.core.text.visible import visible

PACE_SAMPLES = 120
PACE_SECONDS = 1.0
"""A look at the steps that often: what is left is reckoned by the last two minutes."""
UNPACED = {"starting", "restoring", "compiling"}
"""Phases that come before the first plain step, and take as long as a hundred of them."""
SEPARATOR = " · "
MORE = "…"


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast the steps of an attempt come, all that lies between them included."""

    attempt: int = 0
    samples: tuple[tuple[float, int], ...] = ()
    """When (monotonic seconds) how many steps were done, the oldest first."""

    def seen(self, status: JobStatus, *, now: float) -> "Pace":
        """With how far it is ``now``."""
        step = status.step
        if step is None or not _trains(status) or status.phase in UNPACED:
            return self
        before = self.samples
        if status.attempt != self.attempt or (before and step < before[-1][1]):
            return Pace(status.attempt, ((now, step),))
        if before and now - before[-1][0] < PACE_SECONDS:
            return self
        return Pace(self.attempt, (*before, (now, step))[-PACE_SAMPLES:])

    @property
    def step_seconds(self) -> float | None:
        """From one step to the next; None: not known."""
        if not self.samples:
            return None
        (first, step), (last, newest) = self.samples[0], self.samples[-1]
        return None if newest == step else (last - first) / (newest - step)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """What there is to show of a run now. None: not known."""

    status: JobStatus
    elapsed_seconds: float
    """Since the command began."""
    left_seconds: float | None = None
    """Until the present call of ``fit`` is done, if it goes on like this."""
    silent_seconds: float = 0.0
    """Since it made a step, changed its phase or printed something."""

    @property
    def silent(self) -> bool:
        """Whether nothing has come for a while."""
        return self.silent_seconds >= SILENT_SECONDS

    @property
    def paced(self) -> bool:
        """Whether what its steps took still tells something: not of a run that stands."""
        usual = USUAL_STEPS * (self.status.step_seconds or 0.0)
        return not self.silent or self.silent_seconds < usual


def steps_left(status: JobStatus) -> int | None:
    """Until the end of the present call of ``fit``; None: not known."""
    known = (status.epoch, status.epochs, status.step_in_epoch, status.steps_per_epoch)
    if None in known:
        return None
    epoch, epochs, step, steps = (value or 0 for value in known)
    return max((epochs - epoch) * steps - step, 0)


def left_seconds(status: JobStatus, pace: Pace) -> float | None:
    """Until then, at this ``pace``; None: not known."""
    steps, each = steps_left(status), pace.step_seconds
    return steps * each if steps and each is not None else None


def status_line(view: RunView, width: int) -> str:
    """The line, at most ``width`` cells wide: no end of a line, nothing for a terminal to
    obey."""
    parts = [(worth, plain(text)) for worth, text in _parts(view) if text]
    while len(parts) > 1 and cell_len(_joined(parts)) > width:
        parts.remove(min(reversed(parts), key=lambda part: part[0]))
    return fitted(_joined(parts), width)


def plain(text: str) -> str:
    """``text`` in one line, with nothing for a terminal to obey."""
    return visible(" ".join(text.split()))


def fitted(text: str, width: int) -> str:
    """``text`` in at most ``width`` cells."""
    if cell_len(text) <= width:
        return text
    kept = text
    while kept and cell_len(kept) + 1 > width:
        kept = kept[:-1]
    return kept + MORE if width > 0 else ""


def _joined(parts: Sequence[tuple[int, str]]) -> str:
    return SEPARATOR.join(text for _, text in parts)


def _trains(status: JobStatus) -> bool:
    return status.state is JobState.RUNNING and status.step is not None


def _parts(view: RunView) -> list[tuple[int, str]]:
    """(what it is worth, text), in the order in which they stand there."""
    status = view.status
    silence = ""
    if view.silent:
        silence = f"nothing new for {_whole(view.silent_seconds)}"
    elapsed = _whole(view.elapsed_seconds)
    if not _trains(status):
        phase = phase_in_brackets(status)
        attempt = f"attempt {status.attempt}" if status.attempt else ""
        message = "" if status.message == attempt else message_beside_state(status)
        return [
            (9, f"{status.job} · {status.state.words}{phase}"),
            (5, attempt),
            (2, message),
            (6, slice_trial(status)),
            (4, elapsed),
            (8, short_of_memory(status)),
            (8, silence),
        ]
    short = short_of_memory(status)
    phase = "" if trains_on(status) or short else doing(status)
    left = view.left_seconds if view.paced else None
    pace = status.step_seconds if view.paced else None
    return [
        (4 if status.attempt == 1 else 7, f"attempt {status.attempt}"),
        (10, _epoch(status)),
        (11, _step(status)),
        (6 if status.after_error is None else 11, phase),
        (5, f"{1 / pace:.1f} steps/s" if pace else ""),
        (7, loss_beside_step(status, "{:.4g}".format)),
        (6, _memory(status)),
        (6, _slices(status)),
        (3, _snapshot(status)),
        (4, elapsed),
        (9, "" if left is None else f"{_rough(left)} left"),
        (11, short),
        (12, silence),
    ]


def _epoch(status: JobStatus) -> str:
    if status.epoch is None:
        return ""
    of = "" if status.epochs is None else f"/{status.epochs}"
    return f"epoch {status.epoch + 1}{of}"


def _step(status: JobStatus) -> str:
    if status.step_in_epoch is None:
        return f"step {status.step}"
    of = "" if status.steps_per_epoch is None else f"/{status.steps_per_epoch}"
    return f"step {status.step_in_epoch}{of}"


def _memory(status: JobStatus) -> str:
    """The step peak: what is left between steps says nothing of whether it fits."""
    used = status.memory_peak_bytes or status.memory_in_use_bytes
    if used is None:
        return ""
    limit = status.memory_limit_bytes
    of = "" if limit is None else f" of {format_size(limit)}"
    if status.memory_peak_bytes:
        return f"step peak {format_size(used)}{of}"
    return f"{format_size(used)}{of} between steps"


def _slices(status: JobStatus) -> str:
    if status.slice_trial is not None:
        return slice_trial(status)
    sliced = status.slices is not None and status.slices > 1
    return f"{status.slices} slices" if sliced else ""


def _snapshot(status: JobStatus) -> str:
    if status.snapshot is None:
        return "nothing saved yet"
    age = status.snapshot.age_seconds
    return f"saved {'before a reboot' if age is None else f'{_whole(age)} ago'}"


def _whole(seconds: float) -> str:
    """Without tenths, which would flicker."""
    return f"{int(seconds)} s" if seconds < 10 else format_duration(int(seconds))


def _rough(seconds: float) -> str:
    """No more exact than it can be known."""
    if seconds < 60:
        return f"{max(round(seconds), 1)} s"
    if seconds < 600:
        return f"{seconds / 60:.0f} min"
    return format_duration(round(seconds / 60) * 60).replace(" 00 s", "")
