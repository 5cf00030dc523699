"""The other end of the control socket: what the commands use."""

import http.client
import json
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenacity import (
    retry,
    retry_if_exception_type,
    stop_after_delay,
    wait_random_exponential,
)
from typing_extensions import override

ANSWER_SECONDS = 60.0


class NoDaemonError(Exception):
    """Nobody listens there."""


class RefusedError(Exception):
    """The daemon said no; the message is what it said."""

    def __init__(self, message: str, *, status: int) -> None:
        """``status``: of HTTP; 403: they may not, 404: there is no such thing."""
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Client:
    """Asks the daemon at ``path``."""

    path: Path

    def get(self, place: str) -> Any:
        """What is at ``place``. Raises NoDaemonError, RefusedError."""
        return json.loads(self._ask("GET", place, None)[0])

    def post(self, place: str, body: dict[str, Any]) -> Any:
        """What came of it. Raises NoDaemonError, RefusedError."""
        return json.loads(self._ask("POST", place, body)[0])

    def read(self, place: str) -> tuple[bytes, dict[str, str]]:
        """Bytes, and the headers. Raises NoDaemonError, RefusedError."""
        return self._ask("GET", place, None)

    def _ask(
        self, method: str, place: str, body: dict[str, Any] | None
    ) -> tuple[bytes, dict[str, str]]:
        connection = _Connection(self.path)
        sent = None if body is None else json.dumps(body)
        try:
            connection.request(method, place, body=sent)
            response = connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            message = f"no daemon answers at {self.path}"
            raise NoDaemonError(message) from error
        finally:
            connection.close()
        if response.status >= http.client.BAD_REQUEST:
            raise RefusedError(_sentence(content), status=response.status)
        return content, dict(response.getheaders())


def _sentence(content: bytes) -> str:
    try:
        value = json.loads(content)
        lines = [str(value["error"]), *(f"  {p}" for p in value.get("problems", ()))]
        return "\n".join(lines)
    except (ValueError, KeyError, TypeError):
        return "the daemon's answer cannot be understood"


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("trainwarden", timeout=ANSWER_SECONDS)
        self._path = path

    @override
    def connect(self) -> None:
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        channel.settimeout(self.timeout)
        try:
            self._connect(channel)
        except OSError:
            channel.close()
            raise
        self.sock = channel

    @retry(
        retry=retry_if_exception_type(BlockingIOError),  # unix(7): its queue is full
        wait=wait_random_exponential(multiplier=0.05, max=2.0),
        stop=stop_after_delay(ANSWER_SECONDS),
        reraise=True,
    )
    def _connect(self, channel: socket.socket) -> None:
        channel.connect(str(self._path))
