"""This attempt, seen from inside: what it was asked, and what it says of itself.

One object a process, made before the script starts. Standard library only: a script
that never imports Keras pays for nothing else.
"""

from pathlib import Path

from supervisor.wire.directive import Directive
from supervisor.wire.event_file import EventWriter, RecordKind
from supervisor.wire.page import Phase, read_page
from supervisor.wire.paths import AttemptPaths
from trainers.process.end_of_script import EndOfScript
from trainers.process.page_reporter import PageReporter
from trainers.process.training_progress import TrainingProgress


class Attempt(PageReporter):
    """The directive, the page and the events of the running attempt."""

    def __init__(self, directive: Directive) -> None:
        """Open page and event file. Raises OSError, ENOSPC among them."""
        self.directive = directive
        self.paths = AttemptPaths(Path(directive.attempt_directory))
        self.drain_requested = False
        """Whether the supervisor wants this attempt to save its state and end: looked
        at by each step boundary."""
        self.training = TrainingProgress()
        self.end = EndOfScript()
        self._events = EventWriter(self.paths.events)
        self.script: bytes | None = None
        """What is run, which may not be what the file holds now; None: not yet read."""
        self._said: dict[str, object] = {}
        super().__init__(self.paths.page)
        self._done_before = self._furthest_step()

    def _furthest_step(self) -> int:
        """The furthest step that an earlier attempt reached; 0: none."""
        own = self.paths.root
        pages = [read_page(path) for path in own.parent.glob("*/page")]
        return max((page.step or 0 for page in pages if page is not None), default=0)

    def phase_at(self, step: int) -> Phase:
        """What a step after ``step`` is: done again after a crash, or new."""
        return Phase.REPLAYING if step < self._done_before else Phase.TRAINING

    def drain(self) -> None:
        """From the signal handler."""
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
