"""Telemetry of a training process: its events folded into one view, beside its page."""

from supervisor.core.lifecycle.events import Event, NoticeReceived
from supervisor.core.remediation.history import Unpromised, weakest
from supervisor.host.telemetry.attempt_news import RecoveryNews, heard
from supervisor.host.telemetry.attempt_view import AttemptView, fold
from supervisor.wire.event_file import EventReader
from supervisor.wire.page import Page, PageReader
from supervisor.wire.paths import AttemptPaths

END_POLLS = 64
"""Made at most of what an attempt left unread, 256 MiB: a record a second for two weeks.
Of more than that the last part alone is read: its owner may still append to it."""


class Telemetry:
    """The page and the event file of one attempt."""

    def __init__(self, paths: AttemptPaths) -> None:
        self._page = PageReader(paths.page)
        self._reader = EventReader(paths.events)
        self._polls_left = END_POLLS
        self.view = AttemptView()
        self.recovery = RecoveryNews()
        self.unpromised: Unpromised | None = None
        """The first reason that it told why bits are not promised."""

    def poll(self) -> list[Event]:
        """Take in new records; what the core should hear of them."""
        records = self._reader.poll()
        self.view = fold(self.view, records)
        events = [event for record in records for event in heard(record)]
        for event in events:
            self.recovery.hear(event)
            if isinstance(event, NoticeReceived):
                self.unpromised = weakest((self.unpromised, event.unpromised))
        return events

    @property
    def behind(self) -> bool:
        """Whether the event file had more than the last ``poll`` read: ``view`` is of
        the past."""
        return self._reader.behind

    def read_rest(self) -> None:
        """Read on to the end, of an attempt that has ended: what nobody followed may be
        the records of weeks, and the last of them tell how it ended."""
        self.poll()
        while not self.is_read():
            self.poll()
        if self.behind:
            self.poll()

    def is_read(self) -> bool:
        """Whether nothing is to be waited for any more of what an attempt told that has
        ended, asked after each ``poll``: one more has the last, at most."""
        if not self.behind:
            return True
        self._polls_left -= 1
        if self._polls_left >= 0:
            return False
        self._reader.pass_over()
        return True

    def page(self) -> Page | None:
        """Where the attempt is; None: it has not said yet."""
        return self._page.read()

    def close(self) -> None:
        """Give both files back; whoever asks again opens them."""
        self._page.close()
        self._reader.close()
