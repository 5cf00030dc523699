"""What is waited for, asked and said once the script is over."""

from collections.abc import Callable

from supervisor.wire.records import CrashReport


def nothing_lost() -> CrashReport | None:
    """The model, if there is one, is well."""
    return None


class EndOfScript:
    """Who has something to say at the end: whoever asked last, of each kind."""

    def __init__(self) -> None:
        self._wait: Callable[[], None] = lambda: None
        self._lost = nothing_lost
        self._last_words: Callable[[BaseException], None] = lambda _error: None

    def wait_for(self, saver: Callable[[], None]) -> None:
        """``saver()`` returns once a snapshot in flight is on disk."""
        self._wait = saver

    def ask(self, lost: Callable[[], CrashReport | None]) -> None:
        """``lost()``: why that is no end that anybody wants; None: it is well."""
        self._lost = lost

    def say(self, last_words: Callable[[BaseException], None]) -> None:
        """``last_words(error)`` says what is known of memory, if the script ends by it."""
        self._last_words = last_words

    def wait_for_saver(self) -> None:
        """Wait until a snapshot in flight is on disk."""
        self._wait()

    def lost(self) -> CrashReport | None:
        """Why the end is none that anybody wants."""
        return self._lost()

    def last_words(self, error: BaseException) -> None:
        """The script has ended by ``error``."""
        self._last_words(error)
