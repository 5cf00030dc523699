"""A server of metrics that waits for its address: who looks after jobs does not stop because
somebody else listens there.

Any user of a machine may take a port above 1023, and at boot an address may come later
than the daemon.
"""

import threading
from collections.abc import Callable
from typing import Protocol, Self

from supervisor.host.exporter.metrics_server import AddressError, ServeError

RETRY_SECONDS = 5.0
CLOSE_SECONDS = 5.0


class Closes(Protocol):
    """What is served."""

    def close(self) -> None:
        """Stop."""
        ...


class PatientServer:
    """Serves as soon as it can, from its making to ``close``."""

    def __init__(
        self,
        serve: Callable[[], Closes],
        say: Callable[[str], object],
        *,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        """``serve`` once, and again later for as long as its address cannot be had;
        ``say`` is told why, once, and when it could be.

        Raises:
            ServeError: no later try can help.
        """
        self._serve = serve
        self._say = say
        self._retry_seconds = retry_seconds
        self._server: Closes | None = None
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        try:
            self._server = serve()
        except AddressError as error:
            say(
                f"{error}. Jobs are looked after without; it is tried again "
                f"every {retry_seconds:.0f} s"
            )
            self._thread = threading.Thread(
                target=self._try_again, name="metrics-address", daemon=True
            )
            self._thread.start()

    def _try_again(self) -> None:
        while not self._closing.wait(self._retry_seconds):
            try:
                self._server = self._serve()
            except ServeError:  # a certificate may be renewed just now
                continue
            self._say("metrics are served now")
            return

    def close(self) -> None:
        """Stop trying, or serving."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)  # names are looked up without a limit
        if self._server is not None:
            self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
