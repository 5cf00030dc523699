"""What every launcher promises: real shims, real training processes, real signals.

The systemd launcher needs systemd and the installed units: there these tests are run by
``tests/operations/test_real_systemd.py``, in a container that boots one.
"""

import os
import signal
import socket
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from supervisor.core.diagnosis.systemd_result import UnitEnd
from supervisor.core.jobs.spec import Spec
from supervisor.host.launch.direct import DirectLauncher
from supervisor.host.launch.launcher import (
    LaunchedAttempt,
    Launcher,
    LaunchError,
    Name,
    read_shimmed,
)
from supervisor.host.launch.standby_process import DirectStandby, StandbyProcess
from supervisor.host.launch.systemd import SystemdLauncher
from supervisor.host.launch.unit_standby import UnitStandby
from supervisor.wire.files import read_json
from supervisor.wire.messages.directive import Directive
from supervisor.wire.messages.standby_messages import WORD
from supervisor.wire.paths import RunPaths
from supervisor.wire.records.end_records import ExitRecord
from tests.support.directives import directive_of, spec_of
from tests.support.samples import sampled

PATIENCE = 60.0
SLEEP = "import time; print('up', flush=True); time.sleep(120)"
ASKED = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
print('up', flush=True)
time.sleep(120)
"""
IMPORTS = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
import tensorflow as tf
print('up', flush=True)
time.sleep(120)
"""
STANDBY = {"restart": {"standby": True}}
USER = os.environ.get("TRAINWARDEN_SYSTEMD_USER", "")
"""Whose units are installed here; empty: none are."""
JOBS = count(1)
LAUNCHERS = ["tied", "detached", *(["systemd"] if USER else [])]


def only_slow(name: str) -> pytest.MarkDecorator:
    """Of two launchers that differ in nothing that is tested, the one that may wait."""
    others = [one for one in LAUNCHERS if one != name]
    return pytest.mark.parametrize(
        "launcher", sampled(LAUNCHERS, *others), indirect=True
    )


@dataclass
class Launched:
    """An attempt and all that it was made from."""

    attempt: LaunchedAttempt
    spec: Spec
    directive: Directive

    @property
    def output(self) -> str:
        """What training printed."""
        path = self.attempt.paths.output
        return path.read_text() if path.exists() else ""

    @property
    def record(self) -> ExitRecord | None:
        """What the shim wrote at the end."""
        value = read_json(self.attempt.paths.exit)
        return None if value is None else ExitRecord.from_json(value)

    @property
    def shim_pid(self) -> int:
        """The shim's pid."""
        shimmed = read_shimmed(self.attempt.paths)
        assert shimmed is not None
        return shimmed.shim_pid


@dataclass
class Bench:
    """One launcher with a job of its own."""

    launcher: Launcher
    directory: Path
    job: str = field(default_factory=lambda: f"contract-{os.getpid()}-{next(JOBS)}")
    launched: list[Launched] = field(default_factory=list[Launched])

    @property
    def paths(self) -> RunPaths:
        """Of the run."""
        return RunPaths(self.directory / "run-1")

    def told(self, text: str, **tables: object) -> tuple[Spec, Directive]:
        """What the next attempt is asked to do: to run a script with this text."""
        number = len(self.launched) + 1
        script = self.directory / f"train-{number}.py"
        script.write_text(text)
        spec = spec_of(script, **tables)
        made = directive_of(spec, self.paths, self.job, attempt=number)
        return spec, replace(made, run_id=self.job, standby=spec.restart.standby)

    def launch(self, text: str, **tables: object) -> Launched:
        """Begin to start an attempt of a script with this text."""
        spec, directive = self.told(text, **tables)
        paths = self.paths.attempt(directive.attempt)
        attempt = self.launcher.launch(spec, directive, paths=paths)
        made = Launched(attempt, spec, directive)
        self.launched.append(made)
        return made

    @contextmanager
    def standby(self, text: str) -> Generator[StandbyProcess]:
        """A process that waits to be the next attempt, and is gone afterwards."""
        spec, directive = self.told(text, **STANDBY)
        number = directive.attempt
        imports = self.paths.attempt(number - 1).imports
        until(imports.exists)
        spare = partial(self.launcher.spare, directive.run_id, number)
        made = self.launcher.stand_by(
            spec, directive, paths=self.paths, imports=imports
        )
        spare(spared=True)
        try:
            yield made
        finally:
            spare(spared=False)
            if len(self.launched) < number:
                made.ask_end()
                made.wait_for_end(PATIENCE)
                made.clear()

    def hand_over(self, standby: StandbyProcess, text: str) -> Launched:
        """Let a process be the next attempt."""
        spec, directive = self.told(text, **STANDBY)
        paths = self.paths.attempt(directive.attempt)
        attempt = self.launcher.hand_over(standby, spec, directive, paths=paths)
        made = Launched(attempt, spec, directive)
        self.launched.append(made)
        return made

    def start(self, text: str, **tables: object) -> Launched:
        """Start an attempt and wait until its training exists."""
        made = self.launch(text, **tables)
        until(made.attempt.started)
        return made

    def up(self, text: str, **tables: object) -> Launched:
        """Start an attempt and wait for the first word of its script."""
        made = self.start(text, **tables)
        until(lambda: "up" in made.output)
        return made

    def adopt(self, made: Launched) -> LaunchedAttempt | None:
        """What another supervisor finds of it."""
        told = made.directive
        name = Name(run_id=told.run_id, job=told.job, number=told.attempt)
        return self.launcher.adopt(name, paths=made.attempt.paths)

    def left(self, made: Launched) -> str | None:
        """What the gate finds."""
        return self.launcher.left(made.directive.run_id, job=self.job)

    def close(self) -> None:
        """Nothing is left behind."""
        for made in self.launched:
            if made.attempt.pid is not None:
                made.attempt.kill()
                until(made.attempt.ended)
            self.until_nothing_is_left(made)
            made.attempt.close()

    def until_nothing_is_left(self, made: Launched) -> None:
        """Wait until the gate is clear."""
        until(lambda: self.left(made) is None)


def until(wanted: Callable[[], object]) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + PATIENCE
    while not wanted():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)


def alive(pid: int | None) -> bool:
    """Whether a process is there and no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[0] not in {b"Z", b"X"}


def has_ended(made: Launched) -> ExitRecord | None:
    """Wait for the end; what was recorded."""
    until(made.attempt.ended)
    return made.record


@pytest.fixture
def shared(tmp_path: Path, launcher: Launcher) -> Path:
    """A directory that the launcher's user may write to."""
    if isinstance(launcher, SystemdLauncher):
        for directory in (tmp_path, *tmp_path.parents[:2]):  # pytest makes them 0700
            directory.chmod(0o777)
    return tmp_path


@pytest.fixture(params=LAUNCHERS)
def launcher(request: pytest.FixtureRequest) -> Launcher:
    """Each of the launchers."""
    if request.param != "systemd":
        return DirectLauncher(detached=request.param == "detached")
    requests = Path("/var/lib/trainwarden/requests") / USER
    return SystemdLauncher(user=USER, requests=requests)


@pytest.fixture
def bench(launcher: Launcher, shared: Path) -> Iterator[Bench]:
    """A launcher with a job of its own; nothing of it is left afterwards."""
    made = Bench(launcher, shared)
    yield made
    made.close()


@only_slow("tied")
def test_a_process_that_stood_by_is_the_attempt(bench: Bench) -> None:
    """It is nothing that is left while it waits; then it runs the script, and its files
    are those of an attempt."""
    first = bench.up(IMPORTS, **STANDBY)
    with bench.standby(IMPORTS) as made:
        until(lambda: made.look() or made.ended())
        answer = made.look()
        assert answer is not None
        assert answer.because == ""
        assert answer.memory_bytes > 0
        assert not made.has_seen_oom_kills
        first.attempt.kill()
        until(first.attempt.ended)
        bench.until_nothing_is_left(first)
        second = bench.hand_over(made, IMPORTS)
        until(second.attempt.started)
        until(lambda: "up" in second.output)
    words = Path(f"/proc/{second.attempt.pid}/cmdline").read_bytes().split(b"\0")
    assert WORD.encode() in words
    assert bench.left(second) is not None
    found = bench.adopt(second)
    assert found is not None
    found.close()
    second.attempt.ask_drain()
    record = has_ended(second)
    assert record is not None
    assert record.asked_to_stop
    bench.until_nothing_is_left(second)


@only_slow("detached")
@pytest.mark.parametrize("how", sampled(["hangs up", "asks", "at once"], "hangs up"))
def test_who_stands_by_ends_with_who_started_it(bench: Bench, how: str) -> None:
    """Also where that one is killed, and nobody hears of it: by the end of the channel."""
    first = bench.up(IMPORTS, **STANDBY)
    with bench.standby(IMPORTS) as made:
        assert isinstance(made, DirectStandby | UnitStandby)
        if how != "at once":
            until(made.look)
        if how == "hangs up":
            assert made.channel is not None
            made.channel.shutdown(socket.SHUT_RDWR)
            made.look()
        else:
            made.ask_end()
        until(made.ended)
    first.attempt.kill()
    until(first.attempt.ended)
    bench.until_nothing_is_left(first)


def test_nobody_else_is_told_what_to_do(bench: Bench) -> None:
    """Whoever connects where a unit is awaited is heard only if it is the unit."""
    if not isinstance(bench.launcher, SystemdLauncher):
        pytest.skip("a pair of sockets has no name that others could connect to")
    first = bench.up(IMPORTS, **STANDBY)
    with bench.standby(IMPORTS) as made, socket.socket(socket.AF_UNIX) as other:
        assert isinstance(made, UnitStandby)
        other.connect(str(made.point))
        until(made.look)
        other.settimeout(PATIENCE)
        with suppress(ConnectionResetError):
            assert other.recv(1) == b""
        assert made.look() is not None
        assert made.pid != os.getpid()
    first.attempt.kill()
    until(first.attempt.ended)


def test_an_end_of_its_own(bench: Bench) -> None:
    """The exit code is recorded, the output kept, and nothing is left."""
    made = bench.start("print('hello'); raise SystemExit(3)")
    record = has_ended(made)
    assert record is not None
    assert (record.exit_code, record.signal, record.asked_to_stop) == (3, None, False)
    assert made.output == "hello\n"
    bench.until_nothing_is_left(made)
    assert bench.adopt(made) is None


@only_slow("tied")
def test_an_end_by_a_signal(bench: Bench) -> None:
    """A signal's death is recorded as one."""
    record = has_ended(bench.start("import os; os.kill(os.getpid(), 11)"))
    assert record is not None
    assert (record.exit_code, record.signal) == (None, signal.SIGSEGV)


@only_slow("tied")
def test_it_waits_for_nobody(bench: Bench) -> None:
    """Launching returns at once; until training exists there is no pid."""
    made = bench.launch(SLEEP)
    assert not made.attempt.ended()
    until(made.attempt.started)
    assert alive(made.attempt.pid)
    assert bench.left(made) is not None


def test_a_drain(bench: Bench) -> None:
    """Training is asked, and ends in its own way; that it was asked is recorded."""
    made = bench.up(ASKED)
    made.attempt.ask_drain()
    record = has_ended(made)
    assert record is not None
    assert (record.exit_code, record.asked_to_stop) == (75, True)


def test_a_kill(bench: Bench) -> None:
    """What does not react to SIGTERM is ended, and the end is recorded."""
    made = bench.up("import signal; signal.signal(15, signal.SIG_IGN);" + SLEEP)
    made.attempt.ask_drain()
    made.attempt.kill()
    record = has_ended(made)
    assert record is not None
    assert record.signal == signal.SIGKILL


@only_slow("tied")
def test_stacks(bench: Bench) -> None:
    """Training that hangs is asked where it is; who has ended cannot be asked."""
    made = bench.up("def stuck():\n    import time; print('up', flush=True)\n"
                    "    time.sleep(120)\nstuck()")  # fmt: skip
    assert made.attempt.ask_stacks()
    until(lambda: "in stuck" in made.attempt.paths.fault.read_text())
    made.attempt.kill()
    has_ended(made)
    until(lambda: bench.left(made) is None)
    assert not made.attempt.ask_stacks()


@only_slow("tied")
def test_what_the_spec_says_reaches_training(bench: Bench) -> None:
    """Its environment, its directory, its arguments, and no open standard input."""
    made = bench.start(
        "import os, sys; print(os.environ['COLOUR'], os.getcwd(), sys.argv[1:],"
        " repr(sys.stdin.read()))",
        environment={"COLOUR": "blue and 'green'"},
        args=["--x", "a b"],
    )
    has_ended(made)
    where = bench.directory
    assert made.output == f"blue and 'green' {where} ['--x', 'a b'] ''\n"


def test_workers_do_not_survive(bench: Bench) -> None:
    """Also those that left their session, deaf to SIGTERM."""
    made = bench.up(
        "import os, subprocess, sys\n"
        "deaf = 'import signal,time;signal.signal(15,signal.SIG_IGN);"
        'print("up", flush=True);time.sleep(120)\'\n'
        "child = subprocess.Popen([sys.executable, '-c', deaf],"
        " start_new_session=True)\n"
        "print(child.pid, flush=True)\n"
        "import time\n"
        "while not os.path.exists('go'): time.sleep(0.02)\n"
    )
    until(lambda: any(line.isdigit() for line in made.output.split()))
    worker = next(int(word) for word in made.output.split() if word.isdigit())
    (bench.directory / "go").touch()
    has_ended(made)
    assert not alive(worker)
    bench.until_nothing_is_left(made)


def test_a_shim_that_is_killed_takes_training_along(bench: Bench) -> None:
    """There is no record then, and no orphan."""
    made = bench.up(SLEEP)
    os.kill(made.shim_pid, signal.SIGKILL)
    assert has_ended(made) is None
    until(lambda: not alive(made.attempt.pid))
    bench.until_nothing_is_left(made)
    assert bench.adopt(made) is None


def test_who_else_tells_how_it_ended(bench: Bench) -> None:
    """Of a shim that was killed systemd does, to whoever comes later, too; without it
    its parent does, and who comes later knows that it is gone. Where the shim has told it
    itself, nobody else is asked."""
    systemd = isinstance(bench.launcher, SystemdLauncher)
    hurt = bench.up(SLEEP)
    assert _told(bench, hurt) is None
    os.kill(hurt.shim_pid, signal.SIGKILL)
    has_ended(hurt)
    found = _told(bench, hurt)
    assert found is not None
    if not systemd:
        assert found.result == "vanished"
        found = hurt.attempt.shim_end()
        assert found is not None
    assert (found.result, found.signal) == ("signal", signal.SIGKILL)
    bench.until_nothing_is_left(hurt)
    well = bench.start("raise SystemExit(3)")
    has_ended(well)
    assert _told(bench, well) is None


def _told(bench: Bench, made: Launched) -> UnitEnd | None:
    told = made.directive
    name = Name(run_id=told.run_id, job=told.job, number=told.attempt)
    return bench.launcher.told(name, paths=made.attempt.paths)


def test_shim_and_training_killed_at_once(bench: Bench) -> None:
    """Nothing is left, and nothing is recorded that nobody saw."""
    made = bench.up(SLEEP)
    for pid in (made.shim_pid, made.attempt.pid or 0):
        os.kill(pid, signal.SIGKILL)
    has_ended(made)
    bench.until_nothing_is_left(made)
    assert bench.adopt(made) is None


def test_another_supervisor_finds_it_again(bench: Bench) -> None:
    """By boot, pid and start time; it can be drained, and its end is seen."""
    made = bench.up(ASKED)
    found = bench.adopt(made)
    assert found is not None
    assert found.started()
    assert (found.pid, found.ended()) == (made.attempt.pid, False)
    assert found.descriptor is not None
    found.ask_drain()
    until(found.ended)
    assert made.record is not None
    assert made.record.exit_code == 75
    found.close()


@only_slow("tied")
def test_it_is_found_before_it_has_said_anything(bench: Bench) -> None:
    """Whenever a supervisor dies, the next one finds what it was starting."""
    made = bench.launch(SLEEP)
    found = bench.adopt(made)
    assert found is not None
    until(found.started)
    until(made.attempt.started)
    assert found.pid == made.attempt.pid
    found.close()


@only_slow("tied")
def test_attempts_of_another_job_are_not_its_own(bench: Bench) -> None:
    """Also where one name begins like the other."""
    made = bench.up(SLEEP)
    run_id = "another"
    assert bench.launcher.left(run_id, job=bench.job[:-1]) is None
    assert bench.launcher.left(run_id, job=f"{bench.job}-1") is None
    assert bench.left(made) is not None


@only_slow("tied")
def test_an_interpreter_that_does_not_exist(bench: Bench) -> None:
    """The log says so, and 127 is the exit code, as in a shell."""
    record = has_ended(bench.start("", python="/no/such/python"))
    assert record is not None
    assert record.exit_code == 127


@only_slow("tied")
def test_a_directory_that_does_not_exist(bench: Bench) -> None:
    """Nothing starts, and a sentence says so."""
    with pytest.raises(LaunchError) as caught:
        until(bench.launch("", working_directory="/no/such/place").attempt.started)
    assert str(caught.value)
    assert caught.value.lasting is isinstance(bench.launcher, DirectLauncher)
