"""A spec that does what is advised, as far as ``run`` can do it: a file beside the person.

The file that they wrote is left alone: it has their comments in it.
"""

import errno
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supervisor.cli.options import fail
from supervisor.core.jobs.spec import merge
from supervisor.core.memory.alternatives import (
    AXES,
    ON,
    Alternative,
    AlternativeAxis,
    size_of_slice,
    title_of,
)
from supervisor.core.text.toml_text import toml_tables
from supervisor.runtime.measuring.alternative_trials import Advice
from supervisor.wire.files import open_regular

HEADING = "# Written by trainwarden advise"
"""The beginning of each such file: no other is ever overwritten."""
SOMEBODY_ELSES = "is there, and not written by advise: move it away, or rename it"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenSpec:
    """The file that was written; None: there was nothing that ``run`` could do."""

    path: Path | None


def place_of(job: str) -> Path:
    """Where the spec for ``job`` will stand; ends the command where another file does."""
    path = Path(f"{job}.advised.toml")
    _is_there(path)
    return path


def write(path: Path, tables: Mapping[str, Any], advice: Advice) -> WrittenSpec:
    """Write ``tables`` with what is advised into ``path``, for its owner alone: a spec may
    hold secrets. Ends the command where that cannot be done, or where another file came
    there meanwhile. Where nothing of it is for ``run``, nothing is written."""
    best = advice.best
    found = {} if best is None else tables_of(advice, best.combination)
    if not found or best is None:
        return WrittenSpec(path=None)
    heading = f"{HEADING}: {title_of(best.combination)}\n\n"
    _put(path, heading + toml_tables(merge(dict(tables), found)))
    return WrittenSpec(path=path)


def _put(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        try:
            _make(temporary, text)
            if not _is_there(path):
                _make(path, HEADING)  # ours from here on, if no more comes of it
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except FileExistsError:
        fail(f"{path} {SOMEBODY_ELSES}")
    except OSError as error:
        fail(f"cannot write {path}: {error.strerror}", exit_code=1)


def _make(path: Path, text: str) -> None:
    """A file that was not there, for its owner alone. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _is_there(path: Path) -> bool:
    """Whether advise has written it before; ends the command where somebody else has, also
    where it is a link, which may lead to a file of theirs."""
    try:
        with open_regular(path, links=True) as file:
            beginning = file.read(len(HEADING))
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.EINVAL}:
            fail(f"{path} {SOMEBODY_ELSES}")
        fail(f"cannot read {path}: {error.strerror}")
    if beginning != HEADING.encode():
        fail(f"{path} {SOMEBODY_ELSES}")
    return True


def tables_of(advice: Advice, parts: tuple[Alternative, ...]) -> dict[str, Any]:
    """What of ``parts`` stands in a spec."""
    found: dict[str, Any] = {}
    for part in parts:
        key = AXES[part.axis].spec
        if key is not None:
            table, _, name = key.partition(".")
            found.setdefault(table, {})[name] = value_of(advice, part)
    return found


def value_of(advice: Advice, part: Alternative) -> str | int | bool:
    """Of its key in a spec."""
    if part.axis is AlternativeAxis.SLICES:
        batch = advice.fit.batch or 1
        return size_of_slice(batch, int(part.value)) or batch
    if part.axis in {AlternativeAxis.JIT, AlternativeAxis.RECOMPUTATION}:
        return part.value == ON
    return part.value
