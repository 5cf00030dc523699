"""The standby of a run: when there is none, and that it is said once."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from typing_extensions import override

from supervisor.core.jobs.spec import Spec
from supervisor.core.lifecycle.events import DrainRequested
from supervisor.core.lifecycle.run_state import RunPhase, RunState
from supervisor.core.lifecycle.standby_rules import QUIET_SECONDS
from supervisor.core.text.log_level import LogLevel
from supervisor.host.launch.direct import DirectLauncher
from supervisor.host.launch.launcher import Launcher, LaunchError, NotYetError
from supervisor.host.launch.standby_process import END_SECONDS, DirectStandby
from supervisor.host.process.marker_scan import MarkerScan, marker_of
from supervisor.host.service.clock import Clock
from supervisor.runtime.attempts.standby_attempt import LOOK_SECONDS, Standby
from supervisor.runtime.status_builder import standby_told
from supervisor.wire.files import write_json
from supervisor.wire.messages.directive import MARKER, Directive
from supervisor.wire.paths import RunPaths
from tests.support.boxes import until
from tests.support.directives import directive_of, spec_of
from tests.support.lives import POLICY

RUN_ID = f"a-run-{os.getpid()}"
"""Tests of this file may run in several processes at a time, and look at all of them."""
TRAINS = RunState(policy=POLICY, grace_seconds=1.0, phase=RunPhase.RUNNING, attempt=1)


@dataclass(frozen=True)
class HandClock(Clock):
    """Goes on when it is told to."""

    shown: list[float] = field(default_factory=lambda: [1000.0])

    @override
    def now(self) -> float:
        return self.shown[-1]


@dataclass
class WatchedStandby:
    """A standby, and all that was said of it."""

    directory: Path
    wanted: bool = True
    launcher: Launcher = field(default_factory=DirectLauncher)
    size_bytes: int = 1 << 20
    said: list[str] = field(default_factory=list[str])
    clock: HandClock = field(default_factory=HandClock)
    scan: MarkerScan = field(default_factory=MarkerScan)
    standby: Standby = field(init=False)
    spec: Spec = field(init=False)

    def __post_init__(self) -> None:
        script = self.directory / "train.py"
        script.write_text("import time; time.sleep(60)")
        self.spec = spec_of(script, restart={"standby": self.wanted})
        paths = RunPaths(self.directory / "run-1")
        paths.attempt(1).root.mkdir(parents=True)
        write_json(paths.attempt(1).imports, {"imports": []})
        self.standby = Standby(
            run_id=RUN_ID,
            spec=self.spec,
            paths=paths,
            launcher=self.launcher,
            environments=self.scan,
            clock=self.clock,
            say=self.say,
            size_bytes=self.size_bytes,
        )
        self.standby.begin()

    def say(self, text: str, *, level: LogLevel = LogLevel.INFO) -> None:
        """As the run would."""
        assert level is LogLevel.INFO
        self.said.append(text)

    def expected(self) -> Directive:
        """What the next attempt would be told."""
        made = directive_of(self.spec, self.standby.paths, "j", attempt=2)
        return replace(made, run_id=RUN_ID)

    def look(self, run: RunState = TRAINS, *, seconds: float = LOOK_SECONDS) -> None:
        """Once, after so long."""
        self.clock.shown.append(self.clock.now() + seconds)
        self.standby.look(
            run, stepped=True, forecast_seconds=None, expected=self.expected
        )


def test_who_did_not_ask_has_none(tmp_path: Path) -> None:
    """It is off by default, and nothing is said of it."""
    one = WatchedStandby(tmp_path, wanted=False)
    assert spec_of(tmp_path / "train.py").restart.standby is False
    one.look()
    one.look(seconds=QUIET_SECONDS)
    one.standby.finish()
    assert (one.said, one.standby.about) == ([], "")
    assert not one.standby.paths.standby.exists()


def test_none_is_started_where_memory_is_short(tmp_path: Path) -> None:
    """It is said once for an attempt, and stands in the status."""
    one = WatchedStandby(tmp_path, size_bytes=1 << 60)
    for _ in range(3):
        one.look(seconds=QUIET_SECONDS)
    (said,) = one.said
    assert said.startswith("no standby for attempt 2: ")
    assert said.endswith("GiB should be")
    assert standby_told(one.standby.paths) == (said, None)
    assert not one.standby.paths.standby.exists()


@pytest.mark.parametrize("detached", [True, False])
@pytest.mark.parametrize("ends", [True, False])
def test_it_is_spared_while_it_waits_and_ends_with_the_run(
    tmp_path: Path, *, ends: bool, detached: bool
) -> None:
    """Whoever looks for what is left of attempts passes it over, and no longer."""
    one = WatchedStandby(tmp_path, launcher=DirectLauncher(detached=detached))
    one.look()
    one.look(seconds=QUIET_SECONDS)
    assert one.said == [
        "a standby for attempt 2 is started: it imports what this one imported"
    ]
    marker = marker_of(RUN_ID, 2)
    assert MarkerScan().wait_for(marker) != {}
    for _ in range(2):  # what a search has found is believed for a while
        assert one.scan.wait_for(marker_of(RUN_ID)) == {}
    assert one.launcher.left(RUN_ID, job="j") is None
    if ends:
        one.look(replace(TRAINS, stop=DrainRequested("Ctrl-C")))
    one.standby.finish()
    until(
        lambda: not MarkerScan().wait_for(marker)
    )  # killed: it may take a moment to go
    with subprocess.Popen(
        ["/bin/sleep", "30"], env={MARKER: f"{RUN_ID}/2"}
    ) as attempt:  # whoever comes after it is not spared
        assert list(one.scan.wait_for(marker)) == [attempt.pid]
        assert one.launcher.left(RUN_ID, job="j") is not None
        attempt.kill()
    assert MarkerScan().wait_for(marker) == {}
    assert not one.standby.paths.standby.exists()
    assert standby_told(one.standby.paths) == (None, None)


@dataclass(frozen=True, kw_only=True)
class SlowToClear(DirectLauncher):
    """One of before is in the way, for so many calls."""

    left_calls: list[int] = field(default_factory=lambda: [2])

    @override
    def stand_by(
        self, spec: Spec, directive: Directive, *, paths: RunPaths, imports: Path
    ) -> DirectStandby:
        self.left_calls[0] -= 1
        if self.left_calls[0] >= 0:
            message = "it has not ended yet"
            raise NotYetError(message)
        return super().stand_by(spec, directive, paths=paths, imports=imports)


def test_what_goes_by_itself_is_awaited(tmp_path: Path) -> None:
    """Another daemon's still imports, say: nothing is told, and it is tried again."""
    one = WatchedStandby(tmp_path, launcher=SlowToClear())
    one.look()
    one.look(seconds=QUIET_SECONDS)
    one.look()
    assert one.said == []
    one.look()
    assert one.said == [
        "a standby for attempt 2 is started: it imports what this one imported"
    ]
    one.standby.finish()


@dataclass(kw_only=True)
class InTheWay(DirectStandby):
    """As a unit is: its attempt has the same."""

    @property
    @override
    def in_the_way(self) -> bool:
        return True


@dataclass(frozen=True, kw_only=True)
class OneAtATime(DirectLauncher):
    """Starts such."""

    @override
    def stand_by(
        self, spec: Spec, directive: Directive, *, paths: RunPaths, imports: Path
    ) -> DirectStandby:
        made = super().stand_by(spec, directive, paths=paths, imports=imports)
        return InTheWay(
            expected=made.expected,
            environment=made.environment,
            directory=made.directory,
            shim=made.shim,
            channel=made.channel,
        )


def test_a_cold_start_waits_for_what_is_in_its_way(tmp_path: Path) -> None:
    """A standby that is of no use for the attempt: nothing of it is left when the attempt
    is started."""
    one = WatchedStandby(tmp_path, launcher=OneAtATime())
    one.look()
    one.look(seconds=QUIET_SECONDS)
    marker = marker_of(RUN_ID, 2)
    assert MarkerScan().wait_for(marker) != {}
    other = replace(one.expected(), attempt=3)
    paths = one.standby.paths.attempt(3)
    assert one.standby.take(other, paths) is None
    assert MarkerScan().wait_for(marker) == {}
    assert one.said[-1].startswith("attempt 3 starts cold: ")
    one.standby.finish()


@dataclass(kw_only=True)
class Deaf(InTheWay):
    """One that does not end when it is asked to, nor for a while when it is killed; what it
    answers, early on a quick machine, is not heard."""

    waits: list[float] = field(default_factory=list[float])
    kills: list[float] = field(default_factory=list[float])
    over: bool = False

    @override
    def look(self) -> None:
        return None

    @override
    def ended(self) -> bool:
        return self.over and super().ended()

    @override
    def kill(self) -> None:
        self.kills.append(0.0)
        super().kill()

    @override
    def wait_for_end(self, seconds: float) -> bool:
        self.waits.append(seconds)
        return self.over


@dataclass(frozen=True, kw_only=True)
class StartsDeaf(OneAtATime):
    """Starts such."""

    made: list[Deaf] = field(default_factory=list[Deaf])

    @override
    def stand_by(
        self, spec: Spec, directive: Directive, *, paths: RunPaths, imports: Path
    ) -> DirectStandby:
        one = super().stand_by(spec, directive, paths=paths, imports=imports)
        names = ("expected", "environment", "directory", "shim", "channel")
        self.made.append(Deaf(**{name: getattr(one, name) for name in names}))
        return self.made[-1]


@pytest.fixture
def deaf(tmp_path: Path) -> Iterator[tuple[WatchedStandby, Deaf]]:
    """A run whose standby is one."""
    launcher = StartsDeaf()
    one = WatchedStandby(tmp_path, launcher=launcher)
    one.look()
    one.look(seconds=QUIET_SECONDS)
    (made,) = launcher.made
    yield one, made
    one.standby.finish()
    assert made.shim.descriptor == made.channel.fileno() == -1  # all is given back
    assert MarkerScan().wait_for(marker_of(RUN_ID, 2)) == {}


def test_no_run_waits_long_for_another_ones_standby(
    deaf: tuple[WatchedStandby, Deaf],
) -> None:
    """All runs of a daemon wait while one does: what has not gone within a second is
    awaited by its own run alone."""
    one, made = deaf
    other = replace(one.expected(), attempt=3)
    for times in (1, 2):
        with pytest.raises(LaunchError, match="its standby has not ended yet"):
            one.standby.take(other, one.standby.paths.attempt(3))
        assert len(made.kills) == len(made.waits) == times
    assert max(made.waits) <= 1.0
    made.over = True
    assert one.standby.take(other, one.standby.paths.attempt(3)) is None


def test_who_does_not_heed_the_request_to_end_is_killed(
    deaf: tuple[WatchedStandby, Deaf],
) -> None:
    """It holds memory, and the place of its attempt; and nothing is told of it any more."""
    one, made = deaf
    stopped = replace(TRAINS, stop=DrainRequested("Ctrl-C"))
    one.look(stopped)
    assert one.standby.about == ""
    assert standby_told(one.standby.paths) == (None, None)
    one.look(stopped)
    assert made.kills == []
    one.look(stopped, seconds=END_SECONDS)
    assert len(made.kills) == 1


def test_where_nobody_may_look_none_is_started(tmp_path: Path) -> None:
    """A user may close a run's directory to the daemon, or lead it to a name that no
    directory can have; that ends nothing."""
    one = WatchedStandby(tmp_path)
    attempt = one.standby.paths.attempt(1)
    attempt.imports.unlink()
    attempt.root.rmdir()
    attempt.root.symlink_to("x" * 300)  # nothing is closed to root
    one.look()
    one.look(seconds=QUIET_SECONDS)
    assert one.said == []
