"""A double of W&B's server, as far as the real client asks it: runs, and their history.

What it keeps of a run is what the client sends (``file_stream``: lines from an offset on),
and what it says of one that goes on is what it keeps (``RunResumeStatus``).
"""

import gzip
import json
import re
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from typing_extensions import override

STREAM = re.compile(r"/files/[^/]+/[^/]+/([^/]+)/file_stream")
OPERATION = re.compile(r"(?:query|mutation)\s+(\w+)")
KEY = "x" * 40
"""Of the length that the client wants."""


@dataclass
class ServedRun:
    """What the server knows of a run."""

    config: str = ""
    lines: list[str] = field(default_factory=list[str])

    @property
    def history(self) -> list[dict[str, Any]]:
        """What was logged."""
        return [json.loads(line) for line in self.lines]


class WandbServer(ThreadingHTTPServer):
    """It, on a port of its own."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _WandbHandler)
        self.runs: dict[str, ServedRun] = {}

    @property
    def environment(self) -> dict[str, str]:
        """Leads a client here."""
        return {
            "WANDB_BASE_URL": f"http://127.0.0.1:{self.server_port}",
            "WANDB_API_KEY": KEY,
            "WANDB_ERROR_REPORTING": "false",
        }

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client was killed."""

    def stream(self, name: str, files: dict[str, Any]) -> None:
        """Lines of the run ``name``."""
        sent = files.get("wandb-history.jsonl")
        if sent is not None:
            self.run(name).lines[sent["offset"] :] = sent["content"]

    def run(self, name: str) -> ServedRun:
        """The run of that name, made if there is none."""
        return self.runs.setdefault(name, ServedRun())

    def answer(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        """The data of GraphQL's answer."""
        found = OPERATION.search(query)
        match found.group(1) if found else "":
            case "UpsertBucket":
                return {"upsertBucket": self._upserted(variables)}
            case "RunResumeStatus":
                return {"model": {**_PROJECT, "bucket": self._resumed(variables)}}
            case "CreateRunFiles":
                return {"createRunFiles": _UPLOADS}
            case "ServerFeaturesQuery":
                return {"serverInfo": {"features": []}}
            case _:
                return {"viewer": _VIEWER, "serverInfo": {"features": []}}

    def _upserted(self, variables: dict[str, Any]) -> dict[str, Any]:
        run = self.run(variables["name"])
        inserted = not run.config
        run.config = variables.get("config") or run.config
        bucket = {
            "id": "id",
            "name": variables["name"],
            "displayName": variables["name"],
            "config": run.config,
            "historyLineCount": len(run.lines),
            "project": _PROJECT,
        }
        return {"bucket": bucket, "inserted": inserted}

    def _resumed(self, variables: dict[str, Any]) -> dict[str, Any] | None:
        run = self.runs.get(variables["name"])
        if run is None or not run.config:
            return None
        return {
            "id": "id",
            "name": variables["name"],
            "displayName": variables["name"],
            "summaryMetrics": run.lines[-1] if run.lines else "{}",
            "logLineCount": 0,
            "historyLineCount": len(run.lines),
            "eventsLineCount": 0,
            "historyTail": json.dumps(run.lines[-1:]),
            "eventsTail": "[]",
            "config": run.config,
            "tags": [],
            "wandbConfig": json.dumps({"t": 1}),
        }


_ENTITY = {"id": "e", "name": "e"}
_PROJECT = {"id": "p", "name": "p", "entity": _ENTITY}
_VIEWER: dict[str, Any] = {
    "id": "v",
    "entity": "e",
    "username": "u",
    "flags": "{}",
    "teams": {"edges": []},
}
_UPLOADS: dict[str, Any] = {"runID": "id", "uploadHeaders": [], "files": []}


class _WandbHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def _served(self) -> WandbServer:
        assert isinstance(self.server, WandbServer)
        return self.server

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""

    def do_POST(self) -> None:
        """GraphQL, lines of a run, telemetry."""
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Content-Encoding") == "gzip":
            content = gzip.decompress(content)
        stream = STREAM.match(self.path)
        if self.path.startswith("/graphql"):
            asked = json.loads(content)
            data = self._served.answer(asked["query"], asked.get("variables") or {})
            self._say({"data": data})
        elif stream is not None:
            self._served.stream(stream.group(1), json.loads(content).get("files") or {})
            self._say({"exitcode": None, "limits": {}})
        else:
            self._say({})

    def _say(self, value: dict[str, Any]) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def wandb_server() -> Generator[WandbServer]:
    """A server that answers."""
    with WandbServer() as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield server
        finally:
            server.shutdown()
            serving.join()
