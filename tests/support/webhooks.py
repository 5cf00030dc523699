"""A webhook that is listened at: what notifications are sent to in tests."""

import contextlib
import json
import threading
from collections.abc import Generator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from typing_extensions import override


@dataclass
class Webhook:
    """What came, and what is answered."""

    port: int
    refuse: int = 0
    """So many requests are answered with 503 first."""
    silent: threading.Event | None = None
    """Until it is set nothing is answered."""
    came: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    asked: int = 0

    @property
    def address(self) -> str:
        """As Apprise has it, with a secret."""
        return f"json://user:hidden-word@127.0.0.1:{self.port}/hook"

    def file(self, directory: Path) -> Path:
        """A file of addresses that names it."""
        path = directory / "addresses"
        path.write_text(f"{self.address}\n")
        path.chmod(0o600)
        return path

    @property
    def titles(self) -> list[str]:
        """Of what came."""
        return [one["title"] for one in self.came]


@contextlib.contextmanager
def webhook() -> Generator[Webhook]:
    """A server on a port of its own, to the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            hook.asked += 1
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if hook.silent is not None:
                hook.silent.wait(120)
            if hook.asked <= hook.refuse:
                self.send_error(503)
                return
            hook.came.append(json.loads(body))
            self.send_response(200)
            self.end_headers()

        @override
        def log_message(self, format: str, *args: object) -> None:
            """It is quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hook = Webhook(server.server_port)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield hook
        finally:
            if hook.silent is not None:
                hook.silent.set()
            server.shutdown()
            thread.join()
