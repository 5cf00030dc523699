"""A job that another ``trainwarden run`` has in the foreground: found, and asked to end."""

import contextlib
import os
import shlex
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

import psutil

from supervisor.cli.command_hint import command_hint
from supervisor.cli.options import default_state_directory, fail
from supervisor.cli.sources.daemon_client import (
    BOX,
    BOX_STATE,
    LOCK,
    SOCKET,
    answering,
    asking,
    directory_of,
    has_daemon,
)
from supervisor.cli.sources.ledger_reader import reading
from supervisor.core.jobs.job_status import JobState
from supervisor.core.text.units import format_duration
from supervisor.host.control.control_client import Client, RefusedError
from supervisor.host.ledger.job_book import JobBook
from supervisor.host.ledger.ledger import Ledger
from supervisor.host.ledger.ledger_file import LedgerError
from supervisor.host.service.clock import Clock
from supervisor.host.service.lock import holder, holds, is_locked
from supervisor.host.service.termination_mask import heeds_termination
from supervisor.host.service.user_name import user_name
from supervisor.runtime.stored_status import stored_status
from supervisor.wire.paths import StatePaths

STATE_DIRECTORIES = 3
"""Above the lock: of the job, of all jobs, of the state (``wire.paths``)."""
ASKED = (
    "asked to end as Ctrl-C there would, its state saved first if it trains{}; its command"
    " resumes it."
    " Ctrl-C in its terminal does not wait for that any more"
)


@dataclass(frozen=True, slots=True)
class ForegroundJob:
    """It runs now."""

    job: str
    pid: int
    """Of its supervisor, by the kernel's word."""
    lock: Path

    def end(self) -> dict[str, Any]:
        """SIGTERM to its supervisor, and what came of it in the shape of a job that ends.
        Ends the command where the process is another user's."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            self._gone()
        try:
            if not holds(self.pid, self.lock):  # its pid may be another's by now
                self._gone()
            self._refuse_if_of_another()
            if not heeds_termination(self.pid):
                self._refuse_to_kill()
            signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        except (ProcessLookupError, psutil.NoSuchProcess):
            self._gone()
        except PermissionError:
            _refuse(self.job, self.pid)
        finally:
            os.close(descriptor)
        message = f"process {self.pid} was {ASKED.format(self._within())}"
        return {
            "job": self.job,
            "state": "draining",
            "pid": self.pid,
            "message": message,
        }

    def _within(self) -> str:
        """How long it has for that; empty where its spec cannot be read."""
        paths = StatePaths(self.lock.parents[STATE_DIRECTORIES - 1])
        unreadable = (LedgerError, OSError, LookupError, TypeError, ValueError)
        with contextlib.suppress(*unreadable):
            with contextlib.closing(Ledger(paths.ledger, read_only=True)) as ledger:
                row = ledger.latest_run(self.job)
            if row is not None:
                grace = float(row.spec["drain"]["grace"])
                return f" (within {format_duration(grace)})"
        return ""

    def _refuse_if_of_another(self) -> None:
        """Root may signal anybody: files of one user must not end what another runs, and
        what root itself runs least of all."""
        running = psutil.Process(self.pid).uids().effective
        strange = next((one for one in self._files() if one[1] != running), None)
        if strange is not None:
            path, uid = strange
            fail(
                f"{path} belongs to {user_name(uid)}, and process {self.pid}, which holds"
                f" the lock of {self.job}, to {user_name(running)}: nothing was ended. If"
                f" it is the one that you mean, `kill -TERM {self.pid}` asks it to end",
                exit_code=1,
            )

    def _files(self) -> Iterator[tuple[Path, int]]:
        """What leads to the process, and whose it is: the lock; the directories of the
        job and of the state where root looks, or they are shared on purpose; and links."""
        yield self.lock, self.lock.lstat().st_uid
        if os.geteuid() != 0:
            return
        for above, directory in enumerate(self.lock.parents):
            if above < STATE_DIRECTORIES:
                yield directory, directory.stat().st_uid
            if directory.is_symlink() and (uid := directory.lstat().st_uid) != 0:
                yield directory, uid

    def _refuse_to_kill(self) -> NoReturn:
        fail(
            f"process {self.pid} holds the lock of {self.job} and does not take SIGTERM,"
            " as one that trains would: it is no supervisor, and was left alone",
            exit_code=1,
        )

    def _gone(self) -> NoReturn:
        fail(f"{self.job} has just ended by itself", exit_code=1)

    def refuse(self, then: str) -> NoReturn:
        """End the command: that cannot be done while it runs; ``then``: what comes after
        its end."""
        stop = command_hint("stop", self.job)
        fail(
            f"{self.job} runs in the foreground (process {self.pid}): end it with"
            f" `{stop}`, or Ctrl-C there; {then}",
            exit_code=1,
        )


def foreground_job(state_dir: Path | None, job: str) -> ForegroundJob | None:
    """``job``, if it runs in the foreground; None: it does not, or a daemon looks after
    it. Ends the command where another user runs it, and where nobody said which is meant:
    that one, or one of that name that the daemon of the box has."""
    client = answering(state_dir)
    for place in _places(state_dir, client):
        found = _running(StatePaths(place.absolute()), job)
        if found is None:
            continue
        if client is not None and _knows(client, job):
            _ask_which(found, place, client)
        return found
    return None


def refuse_if_over(
    state_dir: Path | None, job: str, then: str, *, finished: str | None = None
) -> None:
    """End the command where ``job`` ran in the foreground and runs no more, or never ran,
    and there is no daemon that could know another one of that name. ``then``: what can be done;
    ``finished``: where that is something else for one that has come to its end."""
    if answering(state_dir) is not None:
        return
    paths = StatePaths(directory_of(state_dir).absolute())
    if not paths.ledger.exists():
        return
    with reading(paths) as ledger:
        row = None if ledger is None else ledger.latest_run(job)
        if ledger is None or JobBook(ledger).knows(job):
            return
        if row is None:
            _refuse_unknown(state_dir, job, paths)
            return
        found = stored_status(ledger, row, paths, now=Clock().now())
    if found.state is JobState.FINISHED and finished is not None:
        then = finished
    gave_up = found.state is JobState.GAVE_UP
    how = "it gave up" if gave_up else f"it is {found.state}"
    fail(f"{job} does not run, {how}: {then}", exit_code=1)


def _refuse_unknown(state_dir: Path | None, job: str, paths: StatePaths) -> None:
    """End the command, unless a daemon that does not answer now may know the job: by a job
    file, or in a ledger that is not the caller's to read."""
    places = [paths.root] if state_dir is not None else [paths.root, BOX_STATE]
    named = state_dir is None and "TRAINWARDEN_SOCKET" in os.environ
    if named or any(has_daemon(place) for place in places):
        return
    fail(f"there is no job {job!r} in {paths.root}; see `{command_hint('status')}`")


def _places(state_dir: Path | None, client: Client | None) -> Iterator[Path]:
    """The state directories where it may run: none that an answering daemon has."""
    if client is None:
        yield directory_of(state_dir)
    if state_dir is None:
        yield default_state_directory()


def _ask_which(found: ForegroundJob, place: Path, client: Client) -> NoReturn:
    """The wrong one of the two must not be ended."""
    own = client.path.parent if client.path.name == SOCKET else None
    theirs = BOX_STATE if client.path == BOX else own
    of_daemon = "its own" if theirs is None else shlex.quote(str(theirs))
    fail(
        f"there may be two jobs {found.job!r}: one runs in the foreground (process"
        f" {found.pid}), and the daemon has one of that name, or does not say that it has"
        f" none. Say which: --state-dir {shlex.quote(str(place))} is that in the"
        f" foreground, --state-dir {of_daemon} that of the daemon",
        exit_code=1,
    )


def _knows(client: Client, job: str) -> bool:
    """Whether the daemon has it; what it refuses for any other reason it may have."""
    with asking():
        try:
            client.get(f"/v1/jobs/{quote(job)}")
        except RefusedError as error:
            return error.status != HTTPStatus.NOT_FOUND
    return True


def _running(paths: StatePaths, job: str) -> ForegroundJob | None:
    lock = paths.lock(job)
    if not is_locked(lock) or is_locked(paths.root / LOCK):
        return None
    pid = holder(lock)
    if pid is None:
        return None
    try:
        held = holds(pid, lock)
    except PermissionError:
        _refuse(job, pid)
    return ForegroundJob(job, pid, lock) if held else None


def _refuse(job: str, pid: int) -> NoReturn:
    try:
        whose = user_name(Path(f"/proc/{pid}").stat().st_uid)
    except OSError:
        whose = "another user"
    fail(
        f"{job} is run by {whose} (process {pid}): only they or root may end it",
        exit_code=1,
    )
