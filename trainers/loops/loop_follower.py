"""A loop of the script's own, followed: recorded call by call, and resumed by its record.

In an attempt that resumes the script runs from its top. Its calls up to the snapshot are
answered from the record without being computed, its data and everything else that is
Python's happen anew; then the variables are given the values that they had there.
"""

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Any, NoReturn

from supervisor.wire.event_file import RecordKind
from supervisor.wire.snapshots.proof import Proof
from trainers.backends.selected import backend
from trainers.fit import supervised
from trainers.fit.determinism import Determinism
from trainers.fit.resume import snapshot_match
from trainers.fit.resume.fit_proof import FitProof
from trainers.fit.telemetry.step_figure_counter import StepFigureCounter
from trainers.loops import loop_state, sentences
from trainers.loops.call_effects import CallEffects, NotFollowedError
from trainers.loops.call_table import CallOf
from trainers.loops.event_log import OtherWayError
from trainers.loops.loop_recorder import LARGE, LoopRecorder
from trainers.loops.loop_replayer import LoopReplayer
from trainers.loops.loop_snapshots import LoopSnapshots
from trainers.loops.loop_state import RecordedLoop, UnsavableError
from trainers.process import signals
from trainers.process.attempt_reporting import Attempt
from trainers.snapshots.durable_store import Snapshot
from trainers.snapshots.run_progress import LOOP

SHOW_SECONDS = 0.2


class FollowMode(Enum):
    """What is done with calls."""

    WAITING = auto()
    """They are computed: the loop has not begun."""
    RECORDING = auto()
    REPLAYING = auto()
    """They are answered from the record, up to where the snapshot was taken."""
    OVER = auto()
    """They are computed: the loop is not followed (any more)."""


class LoopPromise:
    """Says what holds of the loop."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    def promise(self, because: str | None) -> None:
        """Whether the result will be the same bit for bit after a restart."""
        self._attempt.say(
            RecordKind.PROMISE,
            fit=None,
            bits=because is None,
            sentence=because or sentences.EXACT,
        )


class LoopFollower:
    """Follows the calls of one process: one loop, however many ``for`` it has."""

    def __init__(self, attempt: Attempt) -> None:
        with backend.calls.quiet():
            self._session = supervised.session_of(attempt)
        self._attempt = attempt
        self._promise = Determinism(LoopPromise(attempt))
        self._proof = FitProof(self._session, self._promise)
        self._snapshots = LoopSnapshots(
            self._session, self._promise, self._proof, self._show
        )
        self._mode = FollowMode.WAITING
        self._iterations: set[int] = set()
        """Handles of the optimizers' counters."""
        self._begin_with(RecordedLoop(0))
        self._shown = self._stepped = self._began = 0.0
        self._evidence = StepFigureCounter(attempt, fit=None)
        self._ahead: Snapshot | None = None
        """To go on from, where the script comes to the loop that it is of."""
        self._later = set[str]()
        """Large files that hold what is to come, until the script writes them again."""
        self._taken: Snapshot | None = None
        """To go on from, in the loop that is replayed."""
        newest = self._session.plan.newest
        if newest is not None and LOOP in newest.manifest.state:
            self._ahead, self._session.plan.newest = newest, None
        if self._snapshots.were_left():
            self._give_up(sentences.LEFT_BEFORE)

    def _begin_with(self, loop: RecordedLoop) -> None:
        self._loop = loop
        self._effects = CallEffects(loop, self._promise)
        self._recorder = LoopRecorder(loop, self._effects)
        self._replayer = LoopReplayer(loop, self._effects)
        self._snapshots.loop, self._snapshots.recorder = loop, self._recorder
        self._fits = self._session.fit_number, self._session.tries

    @property
    def is_waiting(self) -> bool:
        """Whether the loop has not begun."""
        return self._mode is FollowMode.WAITING

    # --- what the script does --------------------------------------------------------

    def applied(self, optimizer: Any, *, eager: bool) -> None:
        """``optimizer`` makes a step, or one is traced."""
        if self._mode is FollowMode.OVER:
            return
        if eager:
            self._give_up(sentences.EAGER)
            return
        handle = backend.calls.handle_of(optimizer.iterations)
        if handle is not None:
            self._iterations.add(handle)

    def call(
        self,
        number: int,
        function: Any,
        run: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Call number ``number`` of the script: what it returns."""
        if self._ahead is not None:
            self._look_ahead(self._ahead, number)
        if self._mode is FollowMode.REPLAYING:
            if not self._replayer.is_over:
                with self._replaying():
                    return self._replayer.call(function, args, kwargs)
            self._arrive()
        if self._mode is FollowMode.RECORDING:
            self._boundary(number)
        if self._mode is FollowMode.RECORDING:
            return self._record(function, run, args, kwargs)
        with backend.calls.quiet():
            return run(function, *args, **kwargs)

    def begins(
        self,
        number: int,
        function: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: Any,
    ) -> None:
        """The call just made, which returned ``result``, is the first of the loop."""
        if self._mode is not FollowMode.WAITING:
            return
        if backend.calls.on_replicas(function):
            self._give_up(sentences.ON_REPLICAS)
            return
        if not self._begin(number):
            return
        with self._recording():
            call, known = self._effects.known_by(function, args, kwargs)
            self._recorder.made(call, known, function, result, traced=True)
            self._count(call)
            self._promise.tell(backend.fit.why_device_not_exact())
            self._promise.give()

    def _begin(self, number: int) -> bool:
        """Record from call ``number`` on, where the loop can be resumed at all."""
        if not self._attempt.files.is_on:
            self._give_up(sentences.NOT_PUT_BACK)
            return False
        self._begin_with(RecordedLoop(number))
        self._mode = FollowMode.RECORDING
        self._listen()
        return True

    def _listen(self) -> None:
        self._attempt.files.loop_begins()
        self._attempt.training.called()
        self._attempt.training.loop = True
        backend.calls.look(self)

    def _record(
        self,
        function: Any,
        run: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        counted: list[CallOf] = []

        def record(run: Callable[[], Any]) -> Any:
            call, result = self._recorder.call(function, run, args, kwargs)
            counted.append(call)
            return result

        result = self._computed(lambda: run(function, *args, **kwargs), record)
        for call in counted:
            self._count(call)
        return result

    def _computed(
        self, run: Callable[[], Any], record: Callable[[Callable[[], Any]], Any]
    ) -> Any:
        """What ``run`` returns or raises, recorded if that can be."""
        returned: list[Any] = []

        def once() -> Any:
            try:
                returned.append(run())
            except BaseException:  # a step that was broken off may be torn
                self._give_up(sentences.FAILED)
                raise
            return returned[0]

        try:
            return record(once)
        except NotFollowedError as error:
            self._give_up(str(error))
        except Exception as error:
            if self._mode is FollowMode.OVER:
                raise  # the script's own
            self._give_up(sentences.OURS.format(error))
        if not returned:
            with backend.calls.quiet():
                once()
        return returned[0]

    @contextlib.contextmanager
    def _recording(self) -> Iterator[None]:
        try:
            yield
        except NotFollowedError as error:
            self._give_up(str(error))

    @contextlib.contextmanager
    def _replaying(self) -> Iterator[None]:
        if self._attempt.drain_requested:
            self._snapshots.leave(self._taken)
        try:
            yield
        except OtherWayError as error:
            self._lost(str(error))
        self._attempt.tick()

    def looked_at(self, handle: int, *, elsewhere: bool) -> None:
        """The script is about to use that variable."""
        written = self._loop.written
        if not written.is_stale(handle) or self._attempt.training.running is not None:
            return
        if elsewhere:
            if not sentences.is_ours():
                self._give_up(sentences.THREADS)
            return
        variable = backend.calls.variable(handle)
        if variable is None:
            return
        if self._mode is FollowMode.REPLAYING:
            with self._replaying():
                self._replayer.looked_at(handle, variable)
        else:
            with self._recording():
                self._recorder.looked_at(handle, variable)
        written.seen(handle)

    def assigned(self, handle: int) -> None:
        """The script gives that variable a value."""
        self._loop.written.seen(handle)

    def elsewhere(self, function: Any) -> None:
        """Another thread than the script's first calls ``function``."""
        training = self._attempt.training
        if not training.loop or training.running or sentences.is_ours():
            return
        with backend.calls.quiet():
            captured = backend.calls.captured(function)
        if not captured or not captured.isdisjoint(self._loop.written.numbers):
            self._give_up(sentences.THREADS)

    def evaluation(
        self, model: Any, name: str, run: Callable[[], Any], arguments: dict[str, Any]
    ) -> Any:
        """What ``model.evaluate`` or ``model.predict`` returns."""
        if not self._attempt.training.loop:
            return run()
        if arguments.get("callbacks"):
            self._give_up(sentences.CALLBACKS.format(name))
            return run()
        call = self._effects.method_of(model, name, arguments)
        data = arguments.get("x")
        if self._mode is FollowMode.REPLAYING:
            with self._replaying():
                return self._replayer.evaluation(call, model, run, data)
        return self._computed(
            run, functools.partial(self._recorder.evaluation, call, model, data)
        )

    def writes(self, path: str, nbytes: int | None, run: Callable[[], Any]) -> Any:
        """The script writes a state of so many bytes to ``path``: what that returns.

        None: most likely of all that the loop changes.
        A large one is not written again in a replay: its values, those of that time,
        would have to be in the record.
        """
        if not self._attempt.training.loop:
            return run()
        files = self._attempt.files
        large = (nbytes or self._recorder.state_bytes()) > LARGE
        if large and self._mode is FollowMode.REPLAYING:
            with self._replaying():
                result = self._replayer.written(path)
            files.give_back(result if isinstance(result, str) else path)
            return result
        with files.natively(path):
            if not large:
                return run()
            result = self._computed(
                run, functools.partial(self._recorder.written, path)
            )
        self._later -= {path, result} if isinstance(result, str) else {path}
        return result

    def reads(self, path: str) -> None:
        """The script is about to read a state from ``path``."""
        if path in self._later:
            self._later.discard(path)
            self._promise.tell(sentences.FILE_LATER.format(path))

    def fit_begins(self) -> None:
        """The script calls ``fit``, or begins a session."""
        if self._mode is FollowMode.REPLAYING:
            self._lost(sentences.OTHER_FITS)

    def script_ends(self) -> None:
        """There are no more calls."""
        if self._mode is FollowMode.REPLAYING:
            self._lost(sentences.ENDED)
        if self._mode is FollowMode.RECORDING:
            self._show()
            self._evidence.tell()

    # --- steps -----------------------------------------------------------------------

    def _count(self, call: CallOf) -> None:
        if not self._loop.written.changes(call.function, self._iterations):
            return
        now = time.monotonic()
        self._promise.hear_of_draws()
        self._session.trained(steps=1)
        self._attempt.training.ran(1)
        self._attempt.makes_own_steps()
        if self._proof.under_way:
            self._proof.stepped()
        if self._stepped:
            took = now - self._stepped
            done = self._session.step
            self._attempt.count_own_step(seconds=took, steps=1, done=done)
        else:
            self._attempt.say(RecordKind.FIRST_STEP, step=self._session.step)
        self._evidence.count([(self._stepped or now, now, 1)])
        self._evidence.look(steps=1)
        self._stepped = now
        if now - self._shown >= SHOW_SECONDS:
            self._show()

    def _show(self) -> None:
        """Publish how far it is."""
        self._shown = time.monotonic()
        self._attempt.set(step=self._session.step)
        self._attempt.publish_times()

    # --- a resume --------------------------------------------------------------------

    def _look_ahead(self, ahead: Snapshot, number: int) -> None:
        """Begin to replay, where this call is the first of the record."""
        begin, fit = loop_state.begin_of(ahead), self._session.fit_number
        if number < begin or (ahead.manifest.fit != fit and number <= begin):
            return  # other calls, or those of fit, come before it
        self._ahead = None
        if (read := self._attempt.files.went_by) is not None:
            self._attempt.notice(sentences.LOST.format(sentences.READS.format(read)))
            self._snapshots.set_all_aside()
            self._give_up(sentences.READS.format(read))
            return
        if (number, fit) != (begin, ahead.manifest.fit):
            self._attempt.notice(sentences.LOST.format(sentences.OTHER_FITS))
            self._snapshots.set_all_aside()
            self._give_up(sentences.LEFT_BEFORE)
            return
        why_not = loop_state.why_not_exact(ahead)
        self._promise.tell(why_not)
        state = ahead.manifest.state
        changed = snapshot_match.check_compute(self._attempt, state, own_loop=True)
        self._promise.tell(changed)
        self._promise.tell(snapshot_match.check_seeds(ahead))
        self._taken = self._proof.begin(ahead, slices=1, data={}) or ahead
        self._began = time.perf_counter()
        self._begin_with(loop_state.recorded(self._taken))
        self._mode = FollowMode.REPLAYING
        self._attempt.notice(sentences.REPLAYS.format(self._taken.manifest.step))
        self._listen()

    def _arrive(self) -> None:
        """The script is where the snapshot was taken."""
        taken = self._taken
        assert taken is not None  # noqa: S101  # its record was replayed
        read = self._attempt.files.went_by
        if read is not None:
            self._lost(sentences.READS.format(read))
        gone = loop_state.gone(taken)
        if gone is not None:
            self._lost(sentences.FILE_GONE.format(gone))
        self._later = loop_state.later(taken)
        with backend.calls.quiet():
            wrong = loop_state.put_back(self._loop, taken)
        if wrong is not None:
            self._lost(wrong)
        self._mode = FollowMode.RECORDING
        if not self._proof.under_way:
            self._session.put_files_back(taken)
        seconds = time.perf_counter() - self._began
        self._session.restored(taken, seconds=seconds, proves=self._proof.newer)
        self._snapshots.since.restored()
        self._promise.tell(backend.fit.why_device_not_exact())
        self._promise.give()

    # --- between two calls -----------------------------------------------------------

    def _boundary(self, number: int) -> None:
        """Save if it is due, end if that was asked for."""
        if (lost := self._attempt.files.lost_original) is not None:
            self._promise.tell(sentences.ORIGINAL_LOST.format(lost))
        if self._fits != (self._session.fit_number, self._session.tries):
            self._begin(number)  # a restart computes again what was before that fit
        try:
            self._snapshots.boundary(self._ahead or self._session.plan.newest)
        except (NotFollowedError, UnsavableError) as error:
            self._give_up(str(error))

    # --- where it ends ---------------------------------------------------------------

    def _give_up(self, why: str) -> None:
        """Say why the loop is not followed from here on."""
        if self._mode is FollowMode.REPLAYING:
            self._lost(why)
        if self._mode is FollowMode.RECORDING:
            self._show()
        self._mode = FollowMode.OVER
        self._begin_with(RecordedLoop(0))
        self._attempt.training.loop = False
        self._attempt.files.loop_left()
        backend.calls.look_away()
        self._promise.tell(sentences.UNSAVED.format(why))

    def _lost(self, why: str) -> NoReturn:
        """The script does not come by where the snapshot was taken: what was answered so
        far cannot be computed any more, and the process ends. The next begins anew."""
        self._attempt.say(
            RecordKind.PROOF,
            result=Proof.DIFFERS,
            because=sentences.LOST.format(why),
            from_step=0,
            step=0 if self._taken is None else self._taken.manifest.step,
            ends=True,
        )
        self._snapshots.set_all_aside()
        self._attempt.files.loop_left()
        signals.leave(self._attempt)
