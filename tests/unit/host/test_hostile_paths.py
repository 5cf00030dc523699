"""What lies where somebody else can write leads nobody astray: links, pipes, names that
climb, directories that everybody may write to."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from supervisor.core.jobs.config import build_config
from supervisor.core.jobs.spec import SpecError, build_spec
from supervisor.daemon.composition import DaemonError, composed
from supervisor.daemon.job_files import reload
from supervisor.host.process.stack_dump import Stacks
from supervisor.host.telemetry.allocator_dump import read_first_map
from supervisor.host.telemetry.attempt_telemetry import Telemetry
from supervisor.host.telemetry.log_follower import LogFollower
from supervisor.host.telemetry.log_parts import read_part
from supervisor.runtime.attempts.evidence_collector import gather
from supervisor.wire.event_file import EventReader
from supervisor.wire.files import read_json
from supervisor.wire.page import read_page
from supervisor.wire.paths import AttemptPaths
from tests.support.long_life import long_life

NOBODY = 2**30
"""A pid that no process has."""


def fault_of(path: Path) -> bool:
    """Whether a diagnosis takes anything from it."""
    files = AttemptPaths(path.parent)
    exited = gather(
        files,
        telemetry=Telemetry(files),
        log=LogFollower(files.output),
        cpu_limit=None,
        snapshots=(None,),
    )
    return exited.evidence.fault.lines > 0


def stacks_of(path: Path) -> str:
    """What is shown of a process that hangs."""
    stacks = Stacks(AttemptPaths(path.parent), NOBODY, now=0.0, ask=lambda: False)
    assert stacks.taken(now=0.0)
    return stacks.text


READERS: dict[str, Callable[[Path], Any]] = {
    "exit.json": read_json,
    "page": read_page,
    "events.jsonl": lambda path: EventReader(path).poll(),
    "output.log": lambda path: LogFollower(path).poll(),
    "fault.log": fault_of,
    "stacks/fault.log": stacks_of,
    "part.log": lambda path: read_part(path, 0)[1],
    "bfc.1": lambda path: read_first_map(path.parent),
}


def link(path: Path) -> None:
    """To a file that says something."""
    target = path.parent.parent / "target"
    target.write_text('{"kind": "finished", "ns": 1, "exit_code": 0}\n')
    path.symlink_to(target)


TRAPS: dict[str, Callable[[Path], Any]] = {
    "a link": link,
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a pipe": os.mkfifo,
    "a directory": Path.mkdir,
}


@pytest.mark.parametrize("trap", TRAPS)
@pytest.mark.parametrize("name", READERS)
def test_what_an_attempt_leaves_is_read_as_a_file_or_not_at_all(
    tmp_path: Path, name: str, trap: str
) -> None:
    """Whatever its owner put in the place of a file: nobody waits for it, follows it, or
    reads it without end."""
    path = tmp_path / "attempt" / name
    path.parent.mkdir(parents=True)
    TRAPS[trap](path)
    assert not READERS[name](path)


def test_a_log_behind_a_linked_directory(tmp_path: Path) -> None:
    """What another user printed is not shown, whatever leads there."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "output.log").write_text("secret")
    (tmp_path / "attempts").symlink_to(mine)
    path = tmp_path / "attempts" / "output.log"
    assert read_part(path, 0, owner=os.geteuid()) == (0, b"")
    there = mine / "output.log"
    assert read_part(there, 0, owner=os.geteuid()) == (0, b"secret")
    assert read_part(there, 0, owner=os.geteuid() + 1) == (0, b"")


@pytest.mark.parametrize(
    "spec",
    [
        {"script": "/x/train.py", "name": "../../etc"},
        {"script": "/x/train.py", "name": ".."},
        {"script": "/x/train.py", "name": "a/b"},
        {"script": "/x/.."},
        {"script": "/"},
    ],
)
def test_a_name_cannot_climb(tmp_path: Path, spec: dict[str, Any]) -> None:
    """Neither one that is given nor one that is left out makes a file elsewhere."""
    with long_life(tmp_path) as life:
        before = set(life.daemon.scheduler.entries)
        with pytest.raises(SpecError, match="name: "):
            life.daemon.api.submit(life.caller, spec, build_spec(spec))
        assert set(life.daemon.scheduler.entries) == before
    assert {path.name for path in tmp_path.iterdir()} == {"state"}


def writable(state: Path) -> None:
    """For everybody."""
    state.mkdir()
    state.chmod(0o777)


def group_writable(state: Path) -> None:
    """For the group."""
    state.mkdir()
    state.chmod(0o770)


def linked(state: Path) -> None:
    """Somewhere else."""
    elsewhere = state.with_name("elsewhere")
    elsewhere.mkdir(mode=0o700)
    state.symlink_to(elsewhere)


def foreign(state: Path) -> None:
    """Another user's."""
    state.mkdir(mode=0o700)
    try:
        os.chown(state, 12345, -1)
    except PermissionError:
        pytest.skip("giving a directory away needs root")


@pytest.mark.parametrize("make", [writable, group_writable, linked, foreign])
def test_a_state_directory_that_is_not_ours_alone(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    """The daemon does not start in it, and says why."""
    state = tmp_path / "state"
    make(state)
    config = build_config(f'state_dir = "{state}"')
    with pytest.raises(DaemonError, match="nobody else may write to"), composed(config):
        pass
    assert not list(state.iterdir())


def test_job_files_that_anybody_could_have_written(tmp_path: Path) -> None:
    """A link, a file for everybody and a directory for everybody are told and left."""
    with long_life(tmp_path) as life:
        api, jobs = life.daemon.api, tmp_path / "jobs.d"
        jobs.mkdir(mode=0o755)
        (tmp_path / "real.toml").write_text('script = "/x/train.py"\n')
        (jobs / "linked.toml").symlink_to(tmp_path / "real.toml")
        (jobs / "open.toml").write_text('script = "/x/train.py"\n')
        (jobs / "open.toml").chmod(0o666)
        os.mkfifo(jobs / "pipe.toml")
        problems = reload(api, jobs, caller=life.caller)
        assert [problem.split(":")[0] for problem in problems] == [
            "linked.toml", "open.toml", "pipe.toml",
        ]  # fmt: skip
        (jobs / "good.toml").write_text('script = "/x/train.py"\n')
        jobs.chmod(0o777)
        (problem,) = reload(api, jobs, caller=life.caller)
        assert "everybody may write there" in problem
        assert "good" not in life.daemon.scheduler.entries
