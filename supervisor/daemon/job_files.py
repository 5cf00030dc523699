"""The jobs that stand in files: ``jobs.d/*.toml``, each a spec, with ``user`` beside it.

A broken file is reported and changes nothing: neither the other jobs nor its own, which
goes on as it was last understood.
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from supervisor.core.jobs.authorization import Caller
from supervisor.core.jobs.spec import (
    Spec,
    SpecError,
    build_spec,
    check_for_daemon,
    read_toml,
)
from supervisor.daemon.api_service import ApiService
from supervisor.daemon.managed_job import SchedulerError, job_name
from supervisor.host.ledger.ledger import LedgerError
from supervisor.wire.files import open_regular

MAX_BYTES = 1024 * 1024
WORLD = stat.S_IWOTH


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFile:
    """One file that could be read."""

    path: Path
    tables: dict[str, Any]
    """As they stand there."""
    spec: Spec
    user: str | None
    """As whom it runs; None: as the daemon's own user."""


class JobFileError(Exception):
    """A file that cannot be used; the message names it."""


def read_job_file(path: Path) -> JobFile:
    """The job in ``path``. Raises JobFileError."""
    try:
        tables = read_toml(_content(path).decode())
        user = tables.pop("user", None)
        if not (user is None or isinstance(user, str)):
            _fail(path, f"user: expected text, got {user!r}")
        if "name" not in tables:
            tables["name"] = path.stem
        spec = build_spec(tables)
        check_for_daemon(spec)
    except OSError as error:
        _fail(path, error.strerror or str(error))
    except UnicodeDecodeError:
        _fail(path, "it is not UTF-8 text")
    except SpecError as error:
        _fail(path, "; ".join(str(problem) for problem in error.problems))
    for name in ("script", "working_directory"):
        if not str(getattr(spec, name) or "/").startswith("/"):
            _fail(path, f"{name}: expected an absolute path")
    return JobFile(path=path, tables=tables, spec=spec, user=user)


def _fail(path: Path, because: str) -> NoReturn:
    message = f"{path.name}: {because}"
    raise JobFileError(message)


def _content(path: Path) -> bytes:
    """Raises OSError, also for what anybody could have written."""
    with open_regular(path, links=True) as file:
        if os.fstat(file.fileno()).st_mode & WORLD:
            raise OSError(0, "everybody may write to it")
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise OSError(0, f"it is larger than {MAX_BYTES} bytes")
    return content


def reload(api: ApiService, directory: Path, *, caller: Caller) -> list[str]:
    """Take in what the files in ``directory`` say now; a sentence for each problem."""
    problems: list[str] = []
    try:
        paths = sorted(directory.glob("*.toml"))
        if directory.stat().st_mode & WORLD:
            return [f"{directory}: everybody may write there; its files are ignored"]
    except FileNotFoundError:
        return []
    except OSError as error:
        return [f"{directory}: {error.strerror}"]
    for path in paths:
        try:
            _take_in(api, read_job_file(path), caller)
        except (JobFileError, SchedulerError, LedgerError) as error:
            problems.append(str(error))
    return problems


def _take_in(api: ApiService, found: JobFile, caller: Caller) -> None:
    """A new job is submitted; a changed one gets its spec, for its next start."""
    tables, spec, source = found.tables, found.spec, found.path.name
    name, owner = job_name(spec), found.user or caller.name
    known = api.scheduler.entries.get(name)
    if known is None:
        api.submit(caller, tables, spec, owner=owner, source=source)
        return
    if known.row.source != source:
        message = f"{source}: the name {name!r} belongs to {known.row.owner}"
        raise JobFileError(message)
    if known.row.owner != owner:
        message = f"{source}: the job cannot change its user"
        raise JobFileError(message)
    if known.spec != spec:
        api.respec(caller, known, tables, spec)
