"""How a run looks in a terminal and in a log: pure text."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from supervisor.core.jobs.job_status import (
    JobState,
    JobStatus,
    LoopKind,
    RemoteStatus,
    SnapshotPlan,
)
from supervisor.core.text.units import (
    counted,
    format_duration,
    format_loss,
    format_loss_at,
    format_size,
    format_step,
)

PHASES = {
    "finished": "ending: the script is over, its process is not yet",
    "between": "in a callback, or outside of fit",
}
"""Phases whose names alone would mislead; Python and TensorFlow take down what was left
where the script is over."""
LOOPS = {
    LoopKind.OWN: "training in the script's own loop",
    LoopKind.UNSEEN: "the script runs, no step of it is seen",
}
"""Of a script that is in no ``fit``: the phase is told in these words instead."""
AFTER_ERROR = {
    "reporting": "the script ended with an error: writing it down",
    "memory": "the script ended with an error: finding what held the memory",
    "ending": "the script ended with an error: its process is ending",
}
"""What is done after an error, whatever the phase was in which it came."""
SILENT_SECONDS = 10.0
"""Nothing new for so long is worth a word ..."""
USUAL_STEPS = 5
"""... where it is also longer than so many steps take."""
STEPPING = frozenset({"compiling", "training", "replaying"})
UNJUDGED = frozenset({"starting", "finished"})
"""Phases in which the script owes nobody a step."""
ALLOCATOR_SECONDS = 10.0
"""So long TensorFlow's allocator waits for memory, at most, before it refuses."""
TIERS = {"memory": "in memory", "durable": "on disk"}


def message_beside_state(status: JobStatus) -> str:
    """The message, less what the words of the state say already (``drained at step 5``);
    empty: it says nothing else."""
    words = status.state.words
    if status.message in {words, status.state}:
        return ""
    return status.message.removeprefix(f"{words} ")


def progress_line(status: JobStatus) -> str:
    """One line: attempt, epoch, step, loss, speed, memory, slices, last snapshot."""
    if status.state is not JobState.RUNNING or status.step is None:
        phase = phase_in_brackets(status)
        told = message_beside_state(status)
        message = f" · {told}" if told else ""
        trial = slice_trial(status)
        more = "".join(f" · {one}" for one in (trial, stillness(status)) if one)
        return f"{status.job} · {status.state.words}{phase}{message}{more}"
    still = stillness(status)
    pace = None if still else status.step_seconds
    parts = [
        status.job,
        f"attempt {status.attempt}",
        _of("epoch", _from_one(status.epoch), status.epochs),
        _of("step", status.step_in_epoch, status.steps_per_epoch)
        or _of("step", status.step, None),
        loss_beside_step(status, format_loss),
        f"{1 / pace:.1f} steps/s" if pace else "",
        _memory(status),
        _slices(status),
        _snapshot(status),
        still,
        "" if trains_on(status) or short_of_memory(status) else doing(status),
    ]
    return " · ".join(part for part in parts if part)


def loss_beside_step(status: JobStatus, form: Callable[[float], str]) -> str:
    """The loss in a line that has the step in the epoch, or else the step of the run."""
    told = format_loss_at(
        None if status.loss is None else form(status.loss),
        of_step=status.loss_step,
        step=status.step,
        shown=status.step_in_epoch,
    )
    return f"loss {told}" if told else ""


def _loss_beside_all(status: JobStatus) -> str:
    """The loss in a line that has the steps of the run, as page and report tell it."""
    return loss_beside_step(replace(status, step_in_epoch=None), format_loss)


def stillness(status: JobStatus) -> str:
    """Since when nothing moves, where that is longer than usual: a hang long before it is
    judged to be one; else nothing."""
    since, usual = status.progress_age_seconds, status.step_seconds
    if status.state is not JobState.RUNNING or since is None or status.pid is None:
        return ""
    if status.phase in UNJUDGED or status.after_error is not None:
        return ""
    short = short_of_memory(status)
    if not short and since < max(SILENT_SECONDS, USUAL_STEPS * (usual or 0.0)):
        return ""
    lasted, limit = format_duration(since), status.hang_seconds
    judged = ""
    if limit is not None and since < limit:  # time asleep or stopped does not count
        judged = f", judged a hang at {format_duration(limit)} at the earliest"
    if status.phase not in STEPPING:
        return f"no progress for {lasted}{judged}"
    takes = f" (a step takes {format_step(usual)})" if usual else ""
    short = f": {short}" if short else ""
    return f"no step done for {lasted}{takes}{short}{judged}"


def short_of_memory(status: JobStatus) -> str:
    """That the step under way found no memory; else nothing. Whether it waits for some is
    not told: not every allocation does."""
    age = status.memory_refused_age_seconds
    if age is None or status.pid is None or status.phase not in STEPPING:
        return ""
    found = f"an allocation found no memory {format_duration(age)} ago"
    waits = (
        ", and its allocator may wait 10 s for it" if age < ALLOCATOR_SECONDS else ""
    )
    return found + waits


def doing(status: JobStatus) -> str:
    """What the attempt does now, in words; empty: that is not known."""
    if status.after_error is not None:
        return AFTER_ERROR.get(status.after_error, AFTER_ERROR["ending"])
    if status.loop is LoopKind.UNSEEN:
        return LOOPS[LoopKind.UNSEEN]
    if status.loop is LoopKind.OWN and not _lingers(status):
        return LOOPS[LoopKind.OWN]
    phase = status.phase or ""
    return PHASES.get(phase, phase)


def _lingers(status: JobStatus) -> bool:
    """Whether the newest step is longer ago than steps take: the loop may be over."""
    since, usual = status.progress_age_seconds or 0.0, status.step_seconds or 0.0
    return since >= max(SILENT_SECONDS, USUAL_STEPS * usual)


def phase_in_brackets(status: JobStatus) -> str:
    """The same behind the state; nothing where a step found no memory: that is told
    instead, and what it does in that time is to wait, not to compile."""
    known = status.phase and status.pid and not short_of_memory(status)
    return f" ({doing(status)})" if known else ""


def trains_on(status: JobStatus) -> bool:
    """Whether what it does needs no word: it trains, or nobody knows."""
    return status.after_error is None and status.phase in {"training", None}


def _from_one(epoch: int | None) -> int | None:
    return None if epoch is None else epoch + 1


def _of(name: str, value: int | None, whole: int | None) -> str:
    if value is None:
        return ""
    return f"{name} {value}" if whole is None else f"{name} {value}/{whole}"


def _memory(status: JobStatus) -> str:
    """The most that a step needs, which says whether it fits, and what is left of that in
    between."""
    used, peak = status.memory_in_use_bytes, status.memory_peak_bytes
    limit = _of_limit(status)
    if peak is None:
        return "" if used is None else f"{format_size(used)}{limit} between steps"
    between = "" if used is None else f", {format_size(used)} between steps"
    return f"step peak {format_size(peak)}{limit}{between}"


def _of_limit(status: JobStatus) -> str:
    if status.memory_limit_bytes is None:
        return ""
    estimate = status.allocator is not None and status.allocator.source == "estimate"
    about = "about " if estimate else ""
    return f" of {about}{format_size(status.memory_limit_bytes)}"


def slice_trial(status: JobStatus) -> str:
    """That sizes of slices are being tried; else nothing."""
    trial = status.slice_trial
    if trial is None:
        return ""
    return f"trying how many samples fit at once ({trial.size} of {trial.batch})"


def _slices(status: JobStatus) -> str:
    if status.slice_trial is not None:
        return slice_trial(status)
    if status.effective_batch is None:
        return ""
    if status.slices is None or status.slices <= 1:
        return f"batch {status.effective_batch}"
    return f"batch {status.effective_batch} in {status.slices} slices"


def remedy_lines(status: JobStatus) -> Iterator[str]:
    """What remedies have set, as far as it is confirmed, asked for, or not possible."""
    remedies = {
        "set after crashes": status.overrides,
        "set after crashes, not confirmed yet": status.asked,
        "asked for after crashes, but not possible": status.unmet,
    }
    for title, parts in remedies.items():
        tried = parts is status.overrides and status.slice_trial is not None
        listed = ", ".join(
            f"{name} {value}{' (being tried)' if tried and name == 'slices' else ''}"
            for name, value in parts.items()
        )
        if listed:
            yield f"{title}: {listed}"


def reached_line(status: JobStatus) -> str:
    """How far a run that has ended came; empty: it made no step."""
    if not status.step:
        return ""
    parts = (
        _of("epoch", _from_one(status.epoch), status.epochs),
        _of("step", status.step_in_epoch, status.steps_per_epoch),
        f"{counted(status.step, 'step')} in all",
        _loss_beside_all(status),
    )
    return ", ".join(part for part in parts if part)


def _snapshot(status: JobStatus) -> str:
    if status.snapshot is None:
        return "no snapshot yet"
    return f"snapshot {ago(status.snapshot.age_seconds)} (step {status.snapshot.step})"


def ago(seconds: float | None) -> str:
    """So long ago; None: no clock of this boot tells."""
    return "before a reboot" if seconds is None else f"{format_duration(seconds)} ago"


def error_line(status: JobStatus) -> str:
    """What the newest attempt that failed said itself; empty: none did, or the run came to
    its end all the same."""
    error = status.last_error
    if error is None or status.state is JobState.FINISHED:
        return ""
    return f"attempt {error.attempt} ended by {error.cause}: {error.text}"


def plan_line(plan: SnapshotPlan) -> str:
    """How often snapshots are taken, and why."""
    pairs = (("memory", plan.memory_seconds), ("disk", plan.durable_seconds))
    often = [f"to {tier} every {format_duration(s)}" for tier, s in pairs if s]
    return f"snapshots {', '.join(often)} ({plan.because})".replace("  ", " ")


def unsaved_lines(status: JobStatus) -> list[str]:
    """The tiers in which the last snapshot of a run that trains was not saved, and why."""
    return [
        f"snapshots cannot be saved {TIERS.get(tier, tier)}: {one.failing}"
        for tier, one in status.tiers.items()
        if one.failing is not None and status.pid is not None
    ]


def remote_line(remote: RemoteStatus) -> str:
    """Where the run could go on, were this machine lost."""
    if remote.taken_by is not None:
        return f"{remote.taken_by} has taken the run over: nothing is sent from here"
    where = f"nothing whole in {remote.address} yet"
    if remote.step is not None:
        where = f"step {remote.step} is in {remote.address}"
    if remote.age_seconds is not None:
        where += f" since {format_duration(remote.age_seconds)}"
    problem = (
        "" if remote.problem is None else f"; the last upload failed: {remote.problem}"
    )
    return where + problem
