"""A spec that does what is advised, as far as ``run`` can do it: a file beside the person.

The file that they wrote is left alone: it has their comments in it.
"""

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
    Axis,
    size_of_slice,
    title_of,
)
from supervisor.core.text.toml_text import toml_tables
from supervisor.runtime.alternative_trials import Advice

HEADING = "# Written by trainwarden advise"
"""The beginning of each such file: no other is ever overwritten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenSpec:
    """The file that was written; None: there was nothing that ``run`` could do."""

    path: Path | None


def place_of(job: str) -> Path:
    """Where the spec for ``job`` will stand; ends the command where another file does."""
    path = Path(f"{job}.advised.toml")
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return path
    except OSError as error:
        fail(f"cannot read {path}: {error.strerror}")
    if not text.startswith(HEADING):
        fail(f"{path} is there, and not written by advise: move it away, or rename it")
    return path


def write(path: Path, tables: Mapping[str, Any], advice: Advice) -> WrittenSpec:
    """Write ``tables`` with what is advised into ``path``; ends the command where that
    cannot be done. Where nothing of it is for ``run``, nothing is written."""
    best = advice.best
    found = {} if best is None else tables_of(advice, best.combination)
    if not found or best is None:
        return WrittenSpec(path=None)
    heading = f"{HEADING}: {title_of(best.combination)}\n\n"
    try:
        path.write_text(
            heading + toml_tables(merge(dict(tables), found)), encoding="utf-8"
        )
    except OSError as error:
        fail(f"cannot write {path}: {error.strerror}", exit_code=1)
    return WrittenSpec(path=path)


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
    if part.axis is Axis.SLICES:
        batch = advice.fit.batch or 1
        return size_of_slice(batch, int(part.value)) or batch
    if part.axis in {Axis.JIT, Axis.RECOMPUTATION}:
        return part.value == ON
    return part.value
