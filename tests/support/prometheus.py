"""A real Prometheus server, and what it knows."""

import json
import re
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import pytest

DEADLINE_SECONDS = 120.0

Answer = TypeVar("Answer")


@contextmanager
def prometheus(
    program: str, target: str, directory: Path, *more: str, rules: tuple[Path, ...] = ()
) -> Generator[str]:
    """A Prometheus server that scrapes ``target`` and ``more``; yields its address."""
    (directory / "prometheus.yml").write_text(
        "global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 1s}\n"
        f"rule_files: {json.dumps([str(path) for path in rules])}\n"
        "scrape_configs:\n"
        "  - job_name: trainwarden\n"
        f"    static_configs: [{{targets: {json.dumps([target, *more])}}}]\n"
    )
    log = directory / "log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [
                program,
                f"--config.file={directory / 'prometheus.yml'}",
                f"--storage.tsdb.path={directory / 'data'}",
                "--web.listen-address=127.0.0.1:0",
            ],
            stdout=output,
            stderr=output,
        )
    try:
        yield until(lambda: listening(log), f"Prometheus is up: {log}")
    finally:
        server.terminate()
        server.wait(timeout=30)


def listening(log: Path) -> str | None:
    """The address that Prometheus says it has, once it says so."""
    found = re.search(
        r'msg="Listening on" address=(127\.0\.0\.1:[1-9]\d*)', log.read_text()
    )
    return found[1] if found else None


def until(ask: Callable[[], Answer | None], what: str) -> Answer:
    """The first answer that is one."""
    ends = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < ends:
        answer = ask()
        if answer is not None:
            return answer
        time.sleep(0.1)
    pytest.fail(f"waited in vain until {what}")


def until_answered(address: str, query: str) -> None:
    """Wait until the query has an answer."""
    until(lambda: answered(address, query) or None, f"{query} has an answer")


def answered(address: str, query: str) -> bool:
    """Whether the query has an answer now."""
    return bool(results(address, query))


Result = dict[str, Any]


def results(address: str, query: str, **span: float) -> list[Result]:
    """The series that the query has now, or over a ``span`` (start, end, step)."""
    how = "query_range" if span else "query"
    connection = HTTPConnection(address, timeout=30)
    try:
        asked = urlencode({"query": query, **span})
        connection.request("GET", f"/api/v1/{how}?{asked}")
        response = connection.getresponse()
        body = response.read()
    finally:
        connection.close()
    if response.status == 503:
        return []  # Prometheus listens before it is ready
    answer = json.loads(body)
    assert answer["status"] == "success", (query, answer)
    found: list[Result] = answer["data"]["result"]
    return found
