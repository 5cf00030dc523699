"""A socket server in a thread of its own that sleeps until somebody comes.

``socketserver.serve_forever`` wakes up several times a second to see whether it should
end: that is more processor time than a scrape a second takes.
"""

import os
import select
import socketserver
import threading


class ServerThread:
    """Lets ``server`` handle whoever comes, until ``close``."""

    def __init__(self, server: socketserver.TCPServer, *, name: str) -> None:
        """``name``: of the thread."""
        self._server = server
        self._server.timeout = 0.0  # somebody is there when it is asked
        self._ended = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._attend, name=name, daemon=True)
        self._thread.start()

    def _attend(self) -> None:
        poll = select.poll()
        poll.register(self._server.fileno(), select.POLLIN)
        poll.register(self._ended, select.POLLIN)
        while self._ended not in {descriptor for descriptor, _ in poll.poll()}:
            self._server.handle_request()

    def close(self) -> None:
        """Let nobody in any more; requests under way are left to their time limit."""
        os.eventfd_write(self._ended, 1)
        self._thread.join()
        self._server.server_close()
        os.close(self._ended)
