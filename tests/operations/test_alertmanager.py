"""A real Alertmanager with our configuration: what broke silences what follows from it."""

import json
import re
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from grafana.rules.rendering import EVERY_ALERT
from tests.support.prometheus import until

Labels = dict[str, str]


@contextmanager
def alertmanager(program: str, configuration: Path, directory: Path) -> Generator[str]:
    """A running Alertmanager; yields its address."""
    log = directory / "alertmanager.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [
                program,
                f"--config.file={configuration}",
                f"--storage.path={directory / 'alertmanager'}",
                "--web.listen-address=127.0.0.1:0",
                "--cluster.listen-address=",
            ],
            stdout=output,
            stderr=output,
        )
    try:
        yield until(lambda: _address(log), f"Alertmanager is up: {log}")
    finally:
        server.terminate()
        server.wait(timeout=30)


def _address(log: Path) -> str | None:
    found = re.search(r"address=(127\.0\.0\.1:[1-9]\d*)", log.read_text())
    return found[1] if found else None


def asked(address: str, method: str, path: str, body: object = None) -> Any:
    """The answer of its API."""
    connection = HTTPConnection(address, timeout=10)
    try:
        text = None if body is None else json.dumps(body)
        headers = {"Content-Type": "application/json"}
        connection.request(method, f"/api/v2{path}", text, headers)
        response = connection.getresponse()
        answer = response.read()
        assert response.status == 200, answer
        return json.loads(answer) if answer else None
    finally:
        connection.close()


def alert(name: str, **labels: str) -> Labels:
    """The labels of an alert on the first box."""
    return {"alertname": name, "instance": "box:9464", "severity": "warning", **labels}


FIRING: dict[str, tuple[Labels, bool]] = {
    "a box down silences its runs": (alert("TrainwardenRestartLoop", run="a"), True),
    "... and its GPUs": (alert("TrainwardenGpuLost", gpu="GPU-1"), True),
    "the cause itself is told": (alert("TrainwardenBoxDown", job="trainwarden"), False),
    "another box with a run of that name is told": (
        alert("TrainwardenRestartLoop", run="a", instance="other:9464"),
        False,
    ),
    "a lost GPU silences what else is said of it": (
        alert("TrainwardenGpuKeptOut", gpu="GPU-2", instance="third:9464"),
        True,
    ),
    "... is told itself": (
        alert("TrainwardenGpuLost", gpu="GPU-2", instance="third:9464"),
        False,
    ),
    "... and silences no other GPU": (
        alert("TrainwardenGpuKeptOut", gpu="GPU-3", instance="third:9464"),
        False,
    ),
    "a run that gave up is in no restart loop": (
        alert("TrainwardenRestartLoop", run="b", instance="third:9464"),
        True,
    ),
    "... but gave up": (
        alert("TrainwardenGaveUp", run="b", instance="third:9464"),
        False,
    ),
    "what stands still has a low goodput": (
        alert("TrainwardenGoodputLow", run="c", instance="third:9464"),
        True,
    ),
    "... because it stands still": (
        alert("TrainwardenTrainingStalled", run="c", instance="third:9464"),
        False,
    ),
    "what cannot be sent is stale there": (
        alert("TrainwardenRemoteSnapshotStale", run="d", instance="third:9464"),
        True,
    ),
    "... because it cannot be sent": (
        alert("TrainwardenRemoteSnapshotFailing", run="d", instance="third:9464"),
        False,
    ),
}
"""Alerts that fire together, and which of them nobody hears."""


def test_what_follows_is_inhibited(
    root: Path, tool: Callable[[str], str], tmp_path: Path
) -> None:
    """Of all that fires at once people hear of the causes alone, box by box."""
    configuration = root / "deploy" / "prometheus" / "alertmanager.yml"
    subprocess.run([tool("amtool"), "check-config", str(configuration)], check=True)
    program = tool("prometheus-alertmanager")
    with alertmanager(program, configuration, tmp_path) as address:
        fired = [{"labels": labels} for labels, _ in FIRING.values()]
        asked(address, "POST", "/alerts", fired)

        def states() -> dict[tuple[str, ...], bool] | None:
            told = asked(address, "GET", "/alerts?inhibited=true&active=true")
            found = {
                tuple(sorted(one["labels"].values())): one["status"]["state"]
                for one in told
            }
            if len(found) < len(FIRING) or "unprocessed" in found.values():
                return None
            return {key: state == "suppressed" for key, state in found.items()}

        wanted = {tuple(sorted(of.values())): quiet for of, quiet in FIRING.values()}
        until(lambda: True if states() == wanted else None, f"{wanted} are silenced")


def test_inhibitions_name_alerts_that_there_are(root: Path) -> None:
    """A renamed alert does not leave a rule behind that silences nothing."""
    text = (root / "deploy" / "prometheus" / "alertmanager.yml").read_text()
    names = {alert.name for alert in EVERY_ALERT}
    for name in re.findall(r'alertname="(\w+)"', text):
        assert name in names
    for name, group in re.findall(r'alertname=~"(\w+)\(([\w|]+)\)"', text):
        assert {name + one for one in group.split("|")} <= names
