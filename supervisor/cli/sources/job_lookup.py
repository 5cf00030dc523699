"""Where a job's files are: the daemon knows, or else the state directory.

Either way they are read with the rights of who calls the command.
"""

import os
from collections.abc import Mapping
from dataclasses import fields
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

from supervisor.cli.command_hint import command_hint
from supervisor.cli.options import default_state_directory, fail
from supervisor.cli.sources.daemon_client import answering, asking, directory_of
from supervisor.cli.sources.ledger_reader import reading
from supervisor.host.control.control_client import Client, NoDaemonError, RefusedError
from supervisor.runtime.recording.job_locator import JobFiles, job_files
from supervisor.wire.paths import StatePaths


def files_of(state_dir: Path | None, job: str) -> JobFiles:
    """The files of the newest run of ``job``; ends the command where there are none, or
    where they are not the caller's to read."""
    client = answering(state_dir)
    if client is None:
        where = directory_of(state_dir)
        found = _stored(where, job)
        if found is None:
            fail(f"there is no job {job!r} in {where}; see `{command_hint('status')}`")
    else:
        found = _told(client, job, named=state_dir is not None)
    _look_into(found)
    return found


def kept_of(state_dir: Path | None, job: str) -> JobFiles | None:
    """The same; None where there are none, or they are not told."""
    client = answering(state_dir)
    if client is None:
        where = directory_of(state_dir)
        return _stored(where, job) if where.is_dir() else None
    try:
        return _asked(client, job, named=state_dir is not None)
    except (NoDaemonError, RefusedError):
        return None


def never_begun(state_dir: Path | None, job: str) -> bool:
    """Whether ``job`` is one of the daemon's of which no run has begun: it has no files."""
    client = answering(state_dir)
    if client is None:
        return False
    with asking():
        known = any(one["job"] == job for one in client.get("/v1/status")["jobs"])
    try:
        client.get(f"/v1/jobs/{quote(job)}/files")
    except RefusedError as error:
        return known and error.status == HTTPStatus.NOT_FOUND
    except NoDaemonError:
        return False  # it has just gone
    return False


def has_job(state_dir: Path | None, word: str) -> bool:
    """Whether ``files_of`` has something to say of a job of that name: its files, or why
    they are not told."""
    client = answering(state_dir)
    if client is None:
        where = directory_of(state_dir)
        return where.is_dir() and _stored(where, word) is not None
    try:
        _asked(client, word, named=state_dir is not None)
    except NoDaemonError:
        return False  # it has just gone
    except RefusedError as error:
        return error.status != HTTPStatus.NOT_FOUND
    return True


def _told(client: Client, job: str, *, named: bool) -> JobFiles:
    with asking():
        return _asked(client, job, named=named)


def _asked(client: Client, job: str, *, named: bool) -> JobFiles:
    """What the daemon says. A run in the foreground is none of its jobs: unless somebody
    ``named`` the daemon, their own state directory may know it. Raises NoDaemonError,
    RefusedError."""
    try:
        return _understood(client.get(f"/v1/jobs/{quote(job)}/files"))
    except RefusedError:
        mine = default_state_directory()
        there = not named and StatePaths(mine).ledger.exists()
        found = _stored(mine, job) if there else None
        if found is None:
            raise
        return found


def _understood(value: Mapping[str, Any]) -> JobFiles:
    """Keys of a newer daemon are left out."""
    names = {item.name for item in fields(JobFiles)}
    return JobFiles(**{name: one for name, one in value.items() if name in names})


def _stored(state_dir: Path, job: str) -> JobFiles | None:
    paths = StatePaths(state_dir.absolute())
    with reading(paths) as ledger:
        return None if ledger is None else job_files(ledger, job, paths)


def _look_into(found: JobFiles) -> None:
    """A directory that may not be read must not pass for an empty one."""
    try:
        next(Path(found.directory).iterdir(), None)
    except FileNotFoundError:
        return  # its first attempt has not made it yet
    except OSError as error:
        fail(
            f"cannot read {found.directory}: {error.strerror}; "
            "that is for the job's user and for root",
            exit_code=1,
        )


def refuse_as_root(files: JobFiles, what: str) -> None:
    """What is in a user's hands, an interpreter or a link, must not lead root."""
    try:
        owner = Path(files.directory).stat().st_uid
    except OSError:
        return  # there is nothing
    if os.geteuid() == 0 and owner != 0:
        fail(
            f"root does not {what}: {files.job!r} belongs to another user. As them: "
            f"setpriv --reuid={owner} --clear-groups trainwarden …",
            exit_code=1,
        )
