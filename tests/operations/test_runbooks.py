"""Runbooks: complete, and their commands and queries are real."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.command import Trainwarden
from tests.support.samples import sampled

PARTS = ["Meaning", "Impact", "Diagnosis", "Mitigation"]
ROOT = Path(__file__).parents[2]
RUNBOOKS = sorted((ROOT / "deploy" / "runbooks").glob("*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LOOKS = {"df", "grep", "id", "ps"}
"""Programs that every machine has: their lines are run as they stand."""
SYSTEM = {"journalctl", "systemctl"}
"""Of a machine with systemd: that they may find nothing is no mistake of the runbook."""
READS = {"explain", "gpu", "incidents", "logs", "memory", "policy", "quarantine",
         "snapshots", "status"}  # fmt: skip


def blocks(text: str, language: str) -> Iterator[str]:
    """The blocks of a document in that language."""
    return (found[2] for found in BLOCK.finditer(text) if found[1] == language)


COMMANDS = sorted(
    {
        line
        for path in RUNBOOKS
        for block in blocks(path.read_text(), "sh")
        for line in block.splitlines()
    }
)


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Trainwarden:
    """A state directory with a run that gave up, and its incident."""
    directory = tmp_path_factory.mktemp("night")
    command = Trainwarden(directory, directory / "state")
    script = command.script("raise ValueError('at night')\n")
    assert command("run", script).returncode == 1
    return command


@pytest.mark.parametrize("path", RUNBOOKS, ids=lambda path: path.stem)
def test_each_has_the_same_parts(path: Path) -> None:
    """What it means, what it costs, how to look, what to do; and how to look has commands
    to copy."""
    text = path.read_text()
    assert text.startswith(f"# {path.stem}\n")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == PARTS
    assert list(blocks(text, "sh"))
    for part in re.split(r"^## .+$", text, flags=re.MULTILINE)[1:]:
        assert part.strip()


def advice(path: Path) -> list[str]:
    """What a runbook says is to be done, one by one, each on one line."""
    mitigation = path.read_text().split("## Mitigation\n")[1]
    points = re.split(r"^- ", mitigation, flags=re.MULTILINE)[1:]
    return [" ".join(point.split()) for point in points]


ADVICE = [(path.stem, point) for path in RUNBOOKS for point in advice(path)]
ENDS = re.compile(r"\b([Dd]rain|reset the GPU|restart --all|[Rr]eboots?\b)")
GOES_ON = re.compile(r"`trainwarden (resume|start|quarantine --return)\b|\bgo(es)? on\b"
                     r"|as \w+ says|brings them back")  # fmt: skip


def test_what_is_ended_goes_on() -> None:
    """Whoever is told to empty a box, to reset a GPU or to reboot is told in the same
    breath how jobs come back. `drain --all` does not say which ran before."""
    assert [point for _, point in ADVICE if "drain --all" in point] == []
    assert [
        one for one in ADVICE if ENDS.search(one[1]) and not GOES_ON.search(one[1])
    ] == []


def test_what_is_paused_is_resumed() -> None:
    """In the same point, in that order."""
    paused = [point for _, point in ADVICE if "`trainwarden pause`" in point]
    assert paused
    for point in paused:
        assert "`trainwarden resume`" in point.split("`trainwarden pause`")[1]


def test_why_a_snapshot_failed_is_where_the_runbooks_look() -> None:
    """The log of the job has no word of it: the incident has, and `status`."""
    for name in ("TrainwardenSnapshotFailing", "TrainwardenSnapshotStale"):
        text = next(path for path in RUNBOOKS if path.stem == name).read_text()
        looks = "".join(blocks(text, "sh"))
        assert "trainwarden incidents" in looks
        assert "trainwarden explain" in looks
        assert "trainwarden status" in looks
        assert "trainwarden logs" not in looks


def test_a_gpu_is_taken_out_by_a_command() -> None:
    """Not by a sentence alone."""
    out = [point for _, point in ADVICE if "out of service" in point]
    assert out
    assert [
        point for point in out if "`trainwarden quarantine --out" not in point
    ] == []


ONE_OF_EACH = {tuple(shlex.split(line)[:2]): line for line in COMMANDS}
"""By its program and the first word after it; ``test_documented_commands`` parses all."""


@pytest.mark.parametrize("line", sampled(COMMANDS, *ONE_OF_EACH.values()))
def test_every_command_runs(line: str, failed: Trainwarden) -> None:
    """Each line does, as it is copied, on a run that gave up."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TRAINWARDEN_STATE_DIR": str(failed.state),
        "STATE": str(failed.state),
        "JOB": "train",
        "ID": "1",
        "PID": str(os.getpid()),
        "GPU": "GPU-1",
    }
    program, *rest = shlex.split(line)
    assert program in LOOKS | SYSTEM | {"trainwarden"}
    if program == "trainwarden":
        assert rest[0] in READS
    done = subprocess.run(
        ["/bin/sh", "-euc", line],
        cwd=failed.directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=600,
        check=False,
    )
    told = done.stdout.decode(errors="replace")
    assert "invalid option" not in told
    assert "unrecognized option" not in told
    if program not in SYSTEM:
        assert done.returncode == 0, told


def test_every_query_is_one(tool: Callable[[str], str], tmp_path: Path) -> None:
    """Prometheus' own tool parses what is to be pasted into it."""
    queries = {
        block.strip()
        for path in RUNBOOKS
        for block in blocks(path.read_text(), "promql")
    }
    rules = [
        {"record": f"runbook:query_{place}:now", "expr": query}
        for place, query in enumerate(sorted(queries))
    ]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "runbooks", "rules": rules}]}))
    subprocess.run([tool("promtool"), "check", "rules", str(file)], check=True)
