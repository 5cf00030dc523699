"""A mail server that keeps what it gets (RFC 5321, as little of it as a client needs)."""

import contextlib
import email
import email.policy
import socketserver
import threading
from collections.abc import Generator
from dataclasses import dataclass, field
from email.message import EmailMessage

from typing_extensions import override


@dataclass
class MailServer:
    """What came."""

    port: int
    came: list[EmailMessage] = field(default_factory=list[EmailMessage])

    @property
    def address(self) -> str:
        """As Apprise has it."""
        people = "from=box@example.org&to=me@example.org"
        return f"mailto://127.0.0.1:{self.port}?mode=insecure&{people}"


@contextlib.contextmanager
def mail_server() -> Generator[MailServer]:
    """A server on a port of its own, to the end of the block."""

    class Handler(socketserver.StreamRequestHandler):
        def say(self, line: str) -> None:
            """An answer."""
            self.wfile.write(f"{line}\r\n".encode())

        def message(self) -> EmailMessage:
            """What follows DATA, to the dot alone in its line."""
            lines: list[bytes] = []
            while (line := self.rfile.readline()) not in {b".\r\n", b""}:
                lines.append(line.removeprefix(b".") if line[:2] == b".." else line)
            return email.message_from_bytes(
                b"".join(lines), policy=email.policy.default
            )

        @override
        def handle(self) -> None:
            self.say("220 here")
            for line in iter(self.rfile.readline, b""):
                verb = line[:4].upper()
                if verb == b"DATA":
                    self.say("354 go on")
                    kept.came.append(self.message())
                self.say("221 bye" if verb == b"QUIT" else "250 well")
                if verb == b"QUIT":
                    return

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        kept = MailServer(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield kept
        finally:
            server.shutdown()
            thread.join()
