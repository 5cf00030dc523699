"""Jobs on a machine with systemd: each writes every step down once, so that one lost or
done twice would show."""

from pathlib import Path
from typing import Any

from supervisor.host.control.control_client import Client, NoDaemonError, RefusedError
from tests.support.machine import BootedContainer

COUNTS = """
import os, pathlib, sys, time
path = pathlib.Path(sys.argv[1] + ".steps")
last = int(sys.argv[2])
done = len(path.read_text().split()) if path.exists() else 0
with path.open("a") as file:
    while done < last:
        file.write(f"{done}\\n"); file.flush()
        done += 1
        print("step", done, flush=True)
        while pathlib.Path(sys.argv[1] + ".hold").exists(): time.sleep(0.02)
        time.sleep(0.02)
"""


def submit(
    box: BootedContainer,
    name: str,
    *,
    user: str = "alice",
    steps: int = 10**6,
    gpus: int | None = None,
    spec: str = "",
) -> None:
    """Hand in a job that counts its steps. ``spec``: more of its spec, as TOML."""
    asked = [] if gpus is None else ["--gpu-count", str(gpus)]
    if spec:
        (box.shared / f"{name}.toml").write_text(spec)
        asked += ["--spec", f"/shared/{name}.toml"]
    (box.shared / f"{name}.py").write_text(COUNTS)
    place = f"/home/{user}/{name}"
    box.trainwarden(
        "submit", *asked, f"/shared/{name}.py", place, str(steps), user=user
    )


def job(box: BootedContainer, name: str) -> dict[str, Any]:
    """One job as the daemon shows it; empty: it does not answer just now.

    Asked over its socket, from outside: 5 ms instead of the half second of a command,
    and most of what these tests do is to ask this.
    """
    socket = Path(f"/proc/{box.leader}/root/run/trainwarden/control.sock")
    try:
        found: dict[str, Any] = Client(socket).get(f"/v1/jobs/{name}")
    except (NoDaemonError, RefusedError):
        return {}
    return found


def running(box: BootedContainer, name: str) -> dict[str, Any]:
    """Wait until a job trains."""
    box.until(lambda: job(box, name).get("state") == "running")
    return job(box, name)


def attempted(box: BootedContainer, name: str, number: int) -> dict[str, Any]:
    """Wait until attempt ``number`` of a job trains."""

    def there() -> bool:
        found = job(box, name)
        return (found.get("attempt"), found.get("state")) == (number, "running")

    box.until(there)
    return job(box, name)


def steps(box: BootedContainer, name: str, user: str = "alice") -> list[int]:
    """The steps that were done, in order."""
    path = f"/home/{user}/{name}.steps"
    return [int(word) for word in box.says("cat", path).split()]


def finish(box: BootedContainer, name: str) -> None:
    """End a job for good."""
    box.trainwarden("stop", name)
    box.until(lambda: job(box, name).get("state") in {"drained", "finished"})


def main_pid(box: BootedContainer) -> int:
    """The daemon's pid inside."""
    return int(box.property("trainwarden", "MainPID"))


def units(box: BootedContainer, name: str) -> list[str]:
    """Units of a job that systemd knows."""
    said = box.says(
        "systemctl", "list-units", "--all", "--plain", "--no-legend",
        f"trainwarden-attempt-*@{name}-*",
    )  # fmt: skip
    return said.splitlines()


def await_another(box: BootedContainer, before: int) -> None:
    """Wait until a daemon is up that is not the one before."""
    box.until(
        lambda: (
            main_pid(box) not in {0, before}
            and box.property("trainwarden", "ActiveState") == "active"
        )
    )
