"""The standby of a run: started, watched, handed over or ended, and told of.

It is no attempt: nobody else asks for it, and what becomes of it changes nothing but how
long the next attempt takes to begin.
"""

import contextlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field

from supervisor.core.causes import Cause
from supervisor.core.jobs.spec import Spec
from supervisor.core.lifecycle.run_state import RunPhase, RunState
from supervisor.core.lifecycle.standby_rules import (
    USUAL_BYTES,
    StandbyFacts,
    StandbyMove,
    decide,
)
from supervisor.core.text.log_level import Notifier
from supervisor.core.text.units import format_size
from supervisor.host.launch.launcher import (
    LaunchedAttempt,
    Launcher,
    LaunchError,
    NotYetError,
)
from supervisor.host.launch.standby_process import END_SECONDS, StandbyProcess
from supervisor.host.process.marker_scan import MarkerScan, marker_of
from supervisor.host.service.clock import Clock
from supervisor.wire.files import regular, write_json
from supervisor.wire.messages.directive import Directive
from supervisor.wire.paths import AttemptPaths, RunPaths

LOOK_SECONDS = 1.0
"""How often it is thought about."""
IMPORT_SECONDS = 60.0
"""An import that takes longer hangs, as far as one can tell: a cold start may not."""
STARTED = "a standby for attempt {} is started: it imports what this one imported"
WAITS = "a standby waits to be attempt {}, and takes {} of main memory"
TAKEN = "attempt {} goes on in the process that stood by"
COLD = "attempt {} starts cold: {}"
NONE = "no standby for attempt {}: {}"
ENDED_ITSELF = "it has ended"
ANOTHER = "its standby was for another attempt"
HANGS = "its standby has not come to the end of its imports"
IN_THE_WAY = "its standby has not ended yet"
GONE_SECONDS = 1.0
"""From SIGKILL until one is gone: more than that no other run waits for it."""
KILLED_FOR_MEMORY = "the kernel has killed for memory since it was started"


@dataclass(frozen=True, slots=True)
class _Ending:
    """One that was asked to end, and when."""

    process: StandbyProcess
    since: float


@dataclass(kw_only=True)
class Standby:
    """That of one run."""

    run_id: str
    spec: Spec
    paths: RunPaths
    launcher: Launcher
    environments: MarkerScan
    """Of whoever else looks for what is left of attempts."""
    clock: Clock
    say: Notifier
    size_bytes: int = USUAL_BYTES
    """What one takes of main memory: as the last one told, once one has."""
    about: str = ""
    """How it is, in a sentence; empty: none is wanted."""
    _process: StandbyProcess | None = None
    _ending: list[_Ending] = field(default_factory=list[_Ending])
    _not_for: int = 0
    """None is tried any more for this attempt, and those before it."""
    _short_for: int = 0
    """The attempt beside which there was no memory for one."""
    _stepped: tuple[int, float] | None = None
    """The attempt that made its first step, and when that was seen."""
    _looked_at: float = -LOOK_SECONDS
    _started_at: float = 0.0

    def begin(self) -> None:
        """Before the first look: what an earlier supervisor left."""
        self._leave_nothing()

    @property
    def waiting_bytes(self) -> int | None:
        """What it takes of main memory; None: none waits."""
        answer = None if self._process is None else self._process.answer
        return None if answer is None or answer.because else answer.memory_bytes

    @property
    def wanted(self) -> bool:
        """Whether the run has one where it can."""
        return self.spec.restart.standby

    def look(
        self,
        run: RunState,
        *,
        stepped: bool,
        forecast_seconds: float | None,
        expected: Callable[[], Directive],
    ) -> None:
        """Do what there is to do now. ``stepped``: the attempt has made a step.
        ``forecast_seconds``: until main memory runs out. ``expected``: what the next is to
        be told."""
        if not self.wanted:
            return
        now = self.clock.now()
        if now - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = now
        self._clear_ended()
        self._watch(run)
        decided = decide(
            self._facts(
                run, stepped=stepped, forecast_seconds=forecast_seconds, now=now
            )
        )
        if decided.move is StandbyMove.START and self._not_for <= run.attempt:
            self._start(run, expected())
        elif decided.move is StandbyMove.END:
            self.end(decided.because)
        elif decided.because and self._short_for != run.attempt:
            self._short_for = run.attempt  # once: the figures in it change
            self._tell(NONE.format(run.attempt + 1, decided.because))

    def _facts(
        self,
        run: RunState,
        *,
        stepped: bool,
        forecast_seconds: float | None,
        now: float,
    ) -> StandbyFacts:
        if stepped and (self._stepped is None or self._stepped[0] != run.attempt):
            self._stepped = run.attempt, now
        trains = run.phase is RunPhase.RUNNING and stepped
        since = None if self._stepped is None or not trains else now - self._stepped[1]
        known = run.history.attempts
        return StandbyFacts(
            waits=self._process is not None,
            wanted=run.stop is None and not run.state.ended,
            stepped_seconds=since,
            room_bytes=self.launcher.room_bytes(),
            size_bytes=self.size_bytes,
            forecast_seconds=forecast_seconds,
            ran_out=bool(known) and known[-1].cause is Cause.HOST_OOM,
        )

    def _start(self, run: RunState, expected: Directive) -> None:
        imports = self.paths.attempt(run.attempt).imports
        try:
            os.close(regular(imports))
        except OSError:  # none yet, or its owner lets nobody else look
            return
        before, self._not_for = self._not_for, expected.attempt
        self._started_at = self.clock.now()
        try:
            self._process = self.launcher.stand_by(
                self.spec, expected, paths=self.paths, imports=imports
            )
        except NotYetError:
            self._not_for = before
            return
        except LaunchError as error:
            self._tell(NONE.format(expected.attempt, error))
            return
        self._spare(expected.attempt, spared=True)
        self._tell(STARTED.format(expected.attempt))

    def _watch(self, run: RunState) -> None:
        """News of the process itself."""
        process = self._process
        if process is None:
            return
        number = process.expected.attempt
        before, answer = process.answer, process.look()
        if process.ended():
            self._drop(process)
            self._tell(NONE.format(number, ENDED_ITSELF))
        elif answer is not None and before is None and answer.because:
            self._drop(process)
            self._tell(NONE.format(number, answer.because))
        elif answer is not None and before is None:
            self.size_bytes = answer.memory_bytes or self.size_bytes
            self._tell(WAITS.format(number, format_size(answer.memory_bytes)))
        elif number <= run.attempt:
            self.end()

    def take(self, directive: Directive, paths: AttemptPaths) -> LaunchedAttempt | None:
        """The process that stood by, which is the attempt from here on; None: there is
        none, or it is of no use any more.

        Raises LaunchError: there can be no attempt yet.
        """
        process, number = self._process, directive.attempt
        if process is None:
            self._untell()  # of an attempt before
            self._clear_the_way()
            return None
        try:
            _object_to(process, number, since=self.clock.now() - self._started_at)
            attempt = self.launcher.hand_over(
                process, self.spec, directive, paths=paths
            )
        except LaunchError as error:
            self._drop(process)
            self._tell(COLD.format(number, error))
            self._clear_the_way()
            return None
        self._process = None
        self._spare(number, spared=False)
        self._tell(TAKEN.format(number))
        return attempt

    def _clear_the_way(self) -> None:
        """End those whose place the attempt is to have, within some tenths of a second.
        Raises LaunchError where they do not: all runs of a daemon wait here."""
        if not self._gone([one for one in self._ending if one.process.in_the_way]):
            raise LaunchError(IN_THE_WAY)

    def _gone(self, ending: list[_Ending]) -> bool:
        """Kill them: whether all are gone within ``GONE_SECONDS``."""
        for one in ending:
            one.process.kill()
        until = self.clock.now() + GONE_SECONDS
        left = [
            one
            for one in ending
            if not one.process.wait_for_end(max(until - self.clock.now(), 0.0))
        ]
        self._clear_ended()
        return not left

    def end(self, because: str = "") -> None:
        """It is not wanted any more, or costs too much."""
        process = self._process
        if process is not None:
            self._drop(process)
            self._untell()
            if because:
                self._tell(NONE.format(process.expected.attempt, because))

    def finish(self) -> None:
        """The run has ended: nothing of it is left."""
        self.end()
        self._gone(self._ending)
        for one in self._ending:  # killed, and nobody looks any more
            one.process.clear()
        self._ending.clear()
        self._untell()
        self._leave_nothing()

    @property
    def _ours(self) -> bool:
        """Whether the run's files are ours to write, and not another user's."""
        return self.launcher.user_id is None

    def _leave_nothing(self) -> None:
        if not self._ours:
            return
        shutil.rmtree(self.paths.standby, ignore_errors=True)
        self._untell()

    def _drop(self, process: StandbyProcess) -> None:
        """From here on it is something that is left, until it is gone."""
        self._process = None
        self._spare(process.expected.attempt, spared=False)
        process.ask_end()
        self._ending.append(_Ending(process, self.clock.now()))

    def _clear_ended(self) -> None:
        for one in list(self._ending):
            if one.process.ended():
                self._ending.remove(one)
                one.process.clear()
            elif self.clock.now() > one.since + END_SECONDS:
                one.process.kill()

    def _spare(self, number: int, *, spared: bool) -> None:
        self.environments.spare(marker_of(self.run_id, number), spared=spared)
        self.launcher.spare(self.run_id, number, spared=spared)

    def _untell(self) -> None:
        """What was told does not hold any more."""
        self.about = ""
        if self._ours:
            with contextlib.suppress(OSError):
                self.paths.standby_told.unlink(missing_ok=True)

    def _tell(self, sentence: str) -> None:
        if sentence != self.about:
            self.about = sentence
            self.say(sentence)
            if not self._ours:
                return
            with contextlib.suppress(OSError):  # it is told in the log
                told = {"sentence": sentence, "bytes": self.waiting_bytes}
                write_json(self.paths.standby_told, told)


def _object_to(process: StandbyProcess, number: int, *, since: float) -> None:
    """Raises LaunchError where it is of no use for attempt ``number``. ``since``: seconds
    since it was started."""
    if process.expected.attempt != number:
        raise LaunchError(ANOTHER)
    answer = process.look()
    if answer is not None and answer.because:
        raise LaunchError(answer.because)
    if answer is None and since > IMPORT_SECONDS:
        raise LaunchError(HANGS)
    if process.has_seen_oom_kills:
        raise LaunchError(KILLED_FOR_MEMORY)
