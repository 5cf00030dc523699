"""The reporting of this attempt, from inside: what it was asked, what it says of itself.

Its page (phase, heartbeat, steps, figures) and its records. One object a process, made
before the script starts. Standard library only: a script that never imports Keras pays
for nothing else.
"""

import contextlib
import os
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable
from pathlib import Path

from supervisor.wire.event_file import EventWriter, RecordKind
from supervisor.wire.messages.directive import Directive
from supervisor.wire.page import (
    STEP_BUCKETS_SECONDS,
    ErrorStage,
    PageWriter,
    Phase,
    read_page,
)
from supervisor.wire.paths import AttemptPaths
from trainers.files.file_rewind import FileRewind
from trainers.process.end_of_script import EndOfScript
from trainers.process.phase_times import PhaseTimes
from trainers.process.planned_end import PlannedEnd
from trainers.process.script.unseen_steps import UnseenSteps
from trainers.process.training_progress import TrainingProgress
from trainers.process.write_sampler import WriteSampler

LOSS_REMEDIES = ("passed over", "rate lowered")
"""What ``is_news`` is asked about once for each remedy."""
HEARTBEAT_SECONDS = 1.0
PAUSE = 10.0
"""Steps of one loop differ by less: by the length of their batches, say."""
TICK_NS = 500_000_000
"""Nobody looks more often: a tick costs less than a write of the page."""
STEPPING = frozenset({Phase.TRAINING, Phase.REPLAYING})
"""In these phases the training thread is looked at."""
SMOOTHING = 0.1
"""Weight of the newest step in the smoothed step time."""

_PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")


def rss_bytes() -> int | None:
    """Resident memory of this process in bytes; None where /proc is missing."""
    try:
        fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    except OSError:
        return None
    return int(fields[1]) * _PAGE_SIZE


class PageReporter:
    """The writer of one page. Safe from several threads."""

    def __init__(self, path: Path) -> None:
        """Open the page at ``path``. Raises OSError, ENOSPC among them."""
        self._page = PageWriter(path)
        # Reentrant: the signal handler may interrupt a write of its own thread.
        self._lock = threading.RLock()
        self.stepped = self._page.step_writer()
        """Publishes where training is after a step: ``step, step_in_epoch, samples``."""
        now = time.monotonic_ns()
        self._times = PhaseTimes(now_ns=now)
        self._step_counts = [0] * (len(STEP_BUCKETS_SECONDS) + 1)
        self.writes: WriteSampler | None = None
        self._also: Callable[[], None] | None = None
        """What else is done with each heartbeat."""
        self._step: object = None
        self._ticks = 0
        self._ticked = 0
        self._step_sum = 0.0
        self._step_smoothed: float | None = None
        self.set(pid=os.getpid(), phase=int(Phase.STARTING))
        self.set(phase_since_ns=now, heartbeat_ns=now)

    @property
    def phase(self) -> Phase:
        """What it is doing."""
        return self._times.phase

    def set(self, **values: object) -> None:
        """Publish the named fields of the page. Safe from several threads."""
        step = values.get("step", self._step)
        if (
            step != self._step or "ticks" in values
        ):  # a step may be told again and again
            self._step = step
            values["progress_ns"] = time.monotonic_ns()
        with self._lock:
            self._page.set(**values)

    def enter(self, phase: Phase) -> Phase:
        """Change the phase; returns the one that ended."""
        if phase is self._times.phase:  # at each step
            return phase
        now = time.monotonic_ns()
        with self._lock:
            before = self.phase
            if phase is before:
                return before
            self._times.enter(phase, now_ns=now)
            self._page.set(
                phase=int(phase),
                phase_since_ns=now,
                phase_seconds=self._times.tell(now_ns=now),
            )
        return before

    def tick(self) -> None:
        """Something moves that nothing else on the page tells of."""
        self._ticks += 1
        now = time.monotonic_ns()
        if now - self._ticked >= TICK_NS:
            self._ticked = now
            self.set(ticks=self._ticks)

    def count_steps(self, done: Iterable[tuple[float, float, int]]) -> None:
        """Count steps that are completed: when each execution began and ended
        (``perf_counter``), and how many steps it was; ``publish_times`` tells."""
        counts, smoothed = self._step_counts, self._step_smoothed
        for began, ended, steps in done:
            seconds = ended - began
            each = seconds / (steps or 1)
            counts[bisect_left(STEP_BUCKETS_SECONDS, each)] += steps
            self._step_sum += seconds
            before = each if smoothed is None else smoothed
            smoothed = before + SMOOTHING * (each - before)
        self._step_smoothed = smoothed

    @property
    def has_stepped(self) -> bool:
        """Whether a step was counted, of a ``fit`` or of a loop of the script's own."""
        return any(self._step_counts)

    def spent_in(self, phase: Phase, seconds: float) -> None:
        """Count ``seconds`` of the phase that lasts as those of ``phase``."""
        with self._lock:
            self._times.spend_in(phase, seconds, now_ns=time.monotonic_ns())

    def publish_times(self) -> None:
        """Publish how long steps and phases take."""
        self._set_with_phases(
            step_counts=tuple(self._step_counts),
            step_seconds_sum=self._step_sum,
            step_seconds=self._step_smoothed,
        )

    def beat(self) -> None:
        """One heartbeat; a phase that lasts is counted with each."""
        self._set_with_phases(
            heartbeat_ns=time.monotonic_ns(), host_rss_bytes=rss_bytes()
        )

    def _set_with_phases(self, **values: object) -> None:
        with self._lock:
            seconds = self._times.tell(now_ns=time.monotonic_ns())
            self._page.set(phase_seconds=seconds, **values)

    def start_heartbeat(self) -> None:
        """Beat once a second from a daemon thread: the interpreter still runs. Called by
        the thread that trains."""
        self.writes = WriteSampler()
        threading.Thread(
            target=self._beat_for_ever, name="trainwarden-heartbeat", daemon=True
        ).start()

    def _beat_for_ever(self) -> None:
        while True:
            self.beat()
            if self.writes is not None and self.phase in STEPPING:
                self.writes.look()
            if self._also is not None:
                self._also()
            time.sleep(HEARTBEAT_SECONDS)


class Attempt(PageReporter):
    """The directive, the page and the events of the running attempt."""

    def __init__(self, directive: Directive) -> None:
        """Open page and event file. Raises OSError, ENOSPC among them."""
        self.directive = directive
        self.paths = AttemptPaths(Path(directive.attempt_directory))
        self.drain_requested = False
        """Whether the supervisor wants this attempt to save its state and end: looked
        at by each step boundary."""
        self.failed = False
        """Whether an error has ended the script: that is its end, whatever is asked now."""
        self.training = TrainingProgress()
        self.end = EndOfScript()
        self.planned_end = PlannedEnd(directive)
        self.files = FileRewind(directive, self.notice)
        self._events = EventWriter(self.paths.events)
        self.tracker_runs: list[str] = []
        """What was told of runs of experiment trackers that go on."""
        self.script: bytes | None = None
        """What is run, which may not be what the file holds now; None: not yet read."""
        self._said: dict[str, object] = {}
        self._unseen = UnseenSteps()
        super().__init__(self.paths.page)
        self._also = self.watch
        self._done_before = self._furthest_step()

    def _furthest_step(self) -> int:
        """The furthest step that an earlier attempt reached; 0: none."""
        own = self.paths.root
        pages = [read_page(path) for path in own.parent.glob("*/page")]
        return max((page.step or 0 for page in pages if page is not None), default=0)

    def phase_at(self, step: int) -> Phase:
        """What a step after ``step`` is: done again after a crash, or new."""
        return Phase.REPLAYING if step < self._done_before else Phase.TRAINING

    def makes_own_steps(self) -> None:
        """The script makes training steps outside of ``fit``: one of them begins, or is
        traced, or is done."""
        if not self.training.own_steps:
            self.training.own_steps = True
            self.say(RecordKind.OWN_STEP)

    def watch(self) -> None:
        """Say once that no step is seen, where that is so for long."""
        starting = self.phase is Phase.STARTING and not self.training.own_steps
        if self._unseen.tells(starting=starting):
            with contextlib.suppress(OSError):  # a full disk: the heartbeat goes on
                self.say(RecordKind.NO_STEP_SEEN)

    def count_own_step(self, *, seconds: float, steps: int, done: int) -> None:
        """Count ``steps`` steps of a loop of the script's own, after which ``done`` are.

        Such a loop stays in the phase between fits, as nobody knows when it is over and
        a limit on the time between two steps must not hold for what comes then: only the
        time of its steps is that of training, or of steps done again. Where they took
        ``PAUSE`` times as long as steps do, the script did something else between them
        (an evaluation, waiting for data): what steps take counts.
        """
        usual = self._step_smoothed
        if usual is not None and seconds > PAUSE * usual * steps:
            seconds = usual * steps
        self.count_steps([(0.0, seconds, steps)])
        self.spent_in(self.phase_at(done - steps), seconds)

    def goes_on(self, directive: Directive, *, failed_step: int) -> None:
        """A step failed, and the attempt goes on from an earlier one, by ``directive``:
        the loss that is shown is of a step that is not done now."""
        self.set(loss=None, loss_step=None)
        self.directive = directive
        self._done_before = max(self._done_before, failed_step)
        for what in LOSS_REMEDIES:
            self._said.pop(what, None)

    def fails(self) -> None:
        """An error has ended the script."""
        self.failed = True

    def after_error(self, stage: ErrorStage) -> None:
        """An error ended the script, and this is done now. Only for who looks: that it
        cannot be told must not hide the error."""
        with contextlib.suppress(Exception):
            self.set(after_error=int(stage))

    def done(self, step: int) -> None:
        """``step`` steps of the run are done, as many as its planned end is at."""
        if self.planned_end.reached(step):
            self.drain()

    def drain(self) -> None:
        """From the signal handler, or where the end was planned."""
        self.drain_requested = True

    def runs(self, script: bytes) -> None:
        """``script`` is what is run."""
        self.script = script

    def is_news(self, what: str, value: object = True) -> bool:  # noqa: FBT002  # reads well
        """Whether ``value`` is another than the last that was asked about ``what``."""
        known = what in self._said and self._said[what] == value
        self._said[what] = value
        return not known

    def say(self, kind: str, **fields: object) -> None:
        """Append a record to the event file."""
        self._events.append(kind, **fields)

    def notice(self, sentence: str) -> None:
        """Tell the person who runs this."""
        self.say(RecordKind.NOTICE, sentence=sentence)

    def withdraw(self, because: str) -> None:
        """Say that bits are not promised, of the whole run."""
        self.say(RecordKind.PROMISE, fit=None, bits=False, sentence=because)

    def wait_for_saver(self) -> None:
        """Wait until a snapshot in flight is on disk."""
        self.end.wait_for_saver()


_current: list[Attempt] = []


def make_current(attempt: Attempt) -> None:
    """Let ``attempt`` be the one of this process."""
    _current[:] = [attempt]


def current() -> Attempt | None:
    """The attempt of this process; None without a supervisor."""
    return _current[0] if _current else None
