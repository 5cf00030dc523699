"""The end of the script: what is waited for, asked and said then."""

from collections.abc import Callable

from supervisor.wire.records.end_records import CrashReport


def nothing_lost() -> CrashReport | None:
    """The model, if there is one, is well."""
    return None


class EndOfScript:
    """Who has something to say at the end: whoever asked last, of each kind."""

    def __init__(self) -> None:
        self.wait_for_saver: Callable[[], None] = lambda: None
        """Waits until a snapshot in flight is on disk."""
        self.lost = nothing_lost
        """Tells why the end is none that anybody wants; None: it is well."""
        self.reached: Callable[[], None] = lambda: None
        """Is told first that the script has come to its end."""
        self.over: Callable[[], None] = lambda: None
        """Is told that the script has come to its end: it may end the process."""
        self.last_words: Callable[[BaseException], None] = lambda _error: None
        """Says what is known of memory, if the script ends by that error."""

    def wait_for(self, saver: Callable[[], None]) -> None:
        """``saver()`` is how to wait for a snapshot."""
        self.wait_for_saver = saver

    def ask(self, lost: Callable[[], CrashReport | None]) -> None:
        """``lost()`` knows of the model."""
        self.lost = lost

    def tell_first(self, reached: Callable[[], None]) -> None:
        """``reached()`` is to know of it, and goes back to who asks."""
        self.reached = reached

    def tell(self, over: Callable[[], None]) -> None:
        """``over()`` is to know of it."""
        self.over = over

    def say(self, last_words: Callable[[BaseException], None]) -> None:
        """``last_words(error)`` knows of memory."""
        self.last_words = last_words
