"""The table of jobs in ``top``: which columns, in the width there is.

Where not all of them fit, what is least worth is shortened or goes first; the name and
the state of a job go last. A column of which nothing is known takes no room.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len

from supervisor.cli.views.top.gauges import (
    RecentSamples,
    share_bar,
    size_of_limit,
    sparkline,
)
from supervisor.cli.views.top.job_listing import (
    LARGEST_FIRST,
    ListedJob,
    SortKey,
    shown_state,
    snapshot_age,
)
from supervisor.cli.views.top.spans import (
    Span,
    SpanLine,
    Tone,
    cropped_line,
    one_line,
    padded_text,
    toned,
)
from supervisor.cli.views.top.top_view import TopView
from supervisor.core.jobs.job_status import JobState
from supervisor.core.text.units import (
    format_duration,
    format_loss,
    format_loss_at,
    format_size,
)

BAR_CELLS = 6
TREND_READINGS = 12
MOST_CELLS = 32
"""Of a column."""
LEAST_NAME_CELLS = 12
"""So many of a job's name are seen while other columns still have room to give."""
GAP = "  "
MARK, NO_MARK = "> ", "  "
"""Before the selected row, and before others: a screen without colours shows it, too."""
HIGH, NEARLY_FULL = 0.8, 0.95
STATE_TONES = {
    str(JobState.RUNNING): Tone.GOOD,
    str(JobState.GAVE_UP): Tone.BAD,
    str(JobState.INTERRUPTED): Tone.BAD,
    str(JobState.KILLING): Tone.WARNING,
    str(JobState.WAITING): Tone.WARNING,
    str(JobState.DRAINING): Tone.WARNING,
    str(JobState.FINISHED): Tone.FAINT,
    str(JobState.DRAINED): Tone.FAINT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobColumn:
    """A column, and what a job has in it."""

    title: str
    worth: int
    """What is least worth goes first."""
    text: Callable[[ListedJob, RecentSamples], str]
    tone: Callable[[ListedJob], Tone] = lambda _: Tone.NORMAL
    sort: SortKey | None = None
    """What is sorted by where this is marked."""
    right: bool = False
    shorter: "JobColumn | None" = None
    """What takes its place where it does not fit; None: nothing."""


def memory_share(job: ListedJob) -> float | None:
    """What is used of the device's limit, 0 to 1; None: not known."""
    used, limit = job.get("memory_in_use_bytes"), job.get("memory_limit_bytes")
    return used / limit if used is not None and limit else None


def memory_tone(job: ListedJob) -> Tone:
    """How near the limit is."""
    share = memory_share(job) or 0.0
    if share < HIGH:
        return Tone.GOOD if share else Tone.NORMAL
    return Tone.WARNING if share < NEARLY_FULL else Tone.BAD


def memory_gauge(job: ListedJob, cells: int = BAR_CELLS) -> str:
    """A bar and figures, or the figure where no limit is known."""
    used, share = job.get("memory_in_use_bytes"), memory_share(job)
    if used is None or share is None:
        return format_size(used) if used else ""
    return f"{share_bar(share, cells)} {_of_limit(job)}"


def _of_limit(job: ListedJob) -> str:
    allocator: Mapping[str, Any] = job.get("allocator") or {}
    estimate = allocator.get("source") == "estimate"
    used, limit = job["memory_in_use_bytes"], job["memory_limit_bytes"]
    return size_of_limit(used, limit, about=estimate)


def _bar(job: ListedJob, _history: RecentSamples) -> str:
    share = memory_share(job)
    return memory_gauge(job) if share is None else share_bar(share, BAR_CELLS)


def _attempt(job: ListedJob, _history: RecentSamples) -> str:
    return str(job["attempt"])


def _epoch(job: ListedJob, _history: RecentSamples) -> str:
    epoch = job.get("epoch")
    return "" if epoch is None else f"{epoch + 1}/{job.get('epochs') or '?'}"


def _step(job: ListedJob, _history: RecentSamples) -> str:
    return "" if job.get("step") is None else str(job["step"])


def _loss(job: ListedJob, _history: RecentSamples) -> str:
    loss = job.get("loss")
    return "" if loss is None else format_loss(loss)


def loss_of(job: ListedJob) -> str:
    """With its step where that is not the one of the row."""
    loss = job.get("loss")
    return format_loss_at(
        None if loss is None else format_loss(loss),
        of_step=job.get("loss_step"),
        step=job.get("step"),
    )


def step_time(job: ListedJob) -> str:
    """In milliseconds, or in seconds where it is long."""
    seconds = job.get("step_seconds")
    if not seconds:
        return ""
    return f"{seconds * 1000:.0f} ms" if seconds < 10 else format_duration(seconds)


def _saved(job: ListedJob, _history: RecentSamples) -> str:
    age = snapshot_age(job)
    return "" if age is None else format_duration(int(age)).replace(".0", "")


def _step_trend(job: ListedJob, history: RecentSamples) -> str:
    return sparkline(list(history.seconds[job["job"]])[-TREND_READINGS:])


def _memory_trend(job: ListedJob, history: RecentSamples) -> str:
    return sparkline(list(history.memory[job["job"]])[-TREND_READINGS:])


def _error(job: ListedJob, _history: RecentSamples) -> str:
    """What the newest failure said; nothing where the run came to its end all the same."""
    error: Mapping[str, Any] = job.get("last_error") or {}
    over = str(job["state"]) == JobState.FINISHED
    return "" if over else str(error.get("text", ""))


COLUMNS = (
    JobColumn(
        title="job", worth=100, text=lambda job, _: str(job["job"]), sort=SortKey.JOB
    ),
    JobColumn(title="owner", worth=30, text=lambda job, _: str(job.get("owner") or "")),
    JobColumn(
        title="state",
        worth=95,
        text=lambda job, _: shown_state(job),
        tone=lambda job: STATE_TONES.get(str(job["state"]), Tone.NORMAL),
        sort=SortKey.STATE,
    ),
    JobColumn(title="try", worth=60, text=_attempt, sort=SortKey.ATTEMPT, right=True),
    JobColumn(title="epoch", worth=65, text=_epoch, right=True),
    JobColumn(title="step", worth=35, text=_step, right=True),
    JobColumn(
        title="loss",
        worth=50,
        text=lambda job, _: loss_of(job),
        right=True,
        # Where the step's column went before, no other step is beside it.
        shorter=JobColumn(title="loss", worth=50, text=_loss, right=True),
    ),
    JobColumn(
        title="step time",
        worth=55,
        text=lambda job, _: step_time(job),
        sort=SortKey.STEP_TIME,
        right=True,
    ),
    JobColumn(title="", worth=10, text=_step_trend),
    JobColumn(
        title="memory",
        worth=70,
        text=lambda job, _: memory_gauge(job),
        tone=memory_tone,
        sort=SortKey.MEMORY,
        shorter=JobColumn(
            title="memory", worth=75, text=_bar, tone=memory_tone, sort=SortKey.MEMORY
        ),
    ),
    JobColumn(title="", worth=11, text=_memory_trend),
    JobColumn(title="saved", worth=40, text=_saved, sort=SortKey.SAVED, right=True),
    JobColumn(title="error", worth=25, text=_error, tone=lambda _: Tone.BAD),
)


@dataclass(frozen=True, slots=True)
class FilledColumn:
    """A column with its texts."""

    column: JobColumn
    title: str
    texts: tuple[str, ...]

    @property
    def cells(self) -> int:
        """How wide it would like to be."""
        wide = max(map(cell_len, (self.title, *self.texts)))
        return min(wide, MOST_CELLS)

    @property
    def least_cells(self) -> int:
        """... and has to be."""
        named = self.column.sort is SortKey.JOB
        return min(self.cells, LEAST_NAME_CELLS) if named else self.cells


def filled_column(
    column: JobColumn, jobs: Sequence[ListedJob], history: RecentSamples, view: TopView
) -> FilledColumn:
    """``column`` of ``jobs``, its title marked where they are sorted by it."""
    texts = tuple(one_line(column.text(job, history)) for job in jobs)
    title = column.title
    if column.sort is not None and column.sort is view.sort:
        falling = (view.sort in LARGEST_FIRST) != view.backwards
        title += "▼" if falling else "▲"
    return FilledColumn(column, title, texts)


def fitting_columns(
    found: Sequence[FilledColumn],
    width: int,
    shorten: Callable[[JobColumn], FilledColumn],
) -> list[FilledColumn]:
    """As many of ``found`` as fit into ``width``, at least one."""
    kept = list(found)
    while len(kept) > 1 and _needed(kept) > width:
        worst = min(kept, key=lambda one: one.column.worth)
        at, shorter = kept.index(worst), worst.column.shorter
        kept[at : at + 1] = [] if shorter is None else [shorten(shorter)]
    return kept


def _needed(kept: Sequence[FilledColumn]) -> int:
    gaps = len(GAP) * (len(kept) - 1)
    return sum(one.least_cells for one in kept) + gaps


def job_table(
    jobs: Sequence[ListedJob],
    view: TopView,
    history: RecentSamples,
    *,
    width: int,
    rows: int,
) -> list[SpanLine]:
    """The heading, and the rows from ``view.first`` on."""
    seen = jobs[view.first : view.first + rows]
    columns = _columns(jobs, view, history, width - len(MARK))
    cells = [one.cells for one in columns]
    spare = width - len(MARK) - _needed(columns)
    cells[0] = min(columns[0].least_cells + max(spare, 0), cells[0])
    titles = [
        padded_text(one.title, wide, right=one.column.right)
        for one, wide in zip(columns, cells, strict=True)
    ]
    lines = [toned((Span(NO_MARK + GAP.join(titles)),), Tone.HEADING, width)]
    for at, job in enumerate(seen, start=view.first):
        row = _row(job, at, columns, cells)
        chosen = at == view.position
        line = cropped_line((Span(MARK if chosen else NO_MARK), *row), width)
        lines.append(toned(line, Tone.CHOSEN, width) if chosen else line)
    return lines


def _columns(
    jobs: Sequence[ListedJob], view: TopView, history: RecentSamples, width: int
) -> list[FilledColumn]:
    found = [filled_column(column, jobs, history, view) for column in COLUMNS]
    known = [one for one in found if any(one.texts) or one.column.sort is SortKey.JOB]
    return fitting_columns(
        known, width, lambda column: filled_column(column, jobs, history, view)
    )


def _row(
    job: ListedJob, at: int, columns: Sequence[FilledColumn], cells: Sequence[int]
) -> SpanLine:
    spans: list[Span] = []
    for one, wide in zip(columns, cells, strict=True):
        text = padded_text(one.texts[at], wide, right=one.column.right)
        spans += [Span(text, one.column.tone(job)), Span(GAP)]
    return tuple(spans[:-1])
