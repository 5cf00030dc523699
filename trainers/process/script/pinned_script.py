"""The pinned script: as it was when the run began, for later attempts to go on with.

People edit a script while it trains. A restart in the night must go on with what began,
or it would end as neither of the two. A person who starts the run again is asked
(``--accept-changes``), and then the script counts as it is now. ``pinned_modules`` does
the same for what it imports.
"""

import contextlib
import io
import os
from pathlib import Path
from typing import NamedTuple

from supervisor.wire.files import open_regular, write_atomically
from supervisor.wire.messages.directive import Directive
from supervisor.wire.snapshots.seal import script_hash
from trainers.process.script.pinned_modules import show_as_kept

CHANGED = (
    "{script} was changed after the run began: this attempt runs it as it was then (to"
    " take up the changes, end the run and start it again with --accept-changes)"
)
CHANGED_AND_LOST = (
    "{script} was changed after the run began, and what it was then could not be kept:"
    " this attempt runs it as it is now"
)


class ScriptSource(NamedTuple):
    """The script's bytes to run, and what is to be told about them."""

    content: bytes
    told: str | None = None
    lost: bool = False
    """Whether it is not what the run began with, which nobody accepted."""


def read(directive: Directive) -> ScriptSource:
    """What to run.

    Raises OSError: the script cannot be read, and nothing of it was kept.
    """
    kept = _kept(directive)
    try:
        with io.open_code(os.fspath(Path(directive.script).resolve())) as file:
            content = file.read()
    except OSError:
        if kept is None:
            raise
        return _as_kept(directive, kept)
    wanted = directive.script_hash
    if not wanted or script_hash(content, directive.args) == wanted:
        _keep(content, directive)
        return ScriptSource(content)
    if kept is None:
        told = CHANGED_AND_LOST.format(script=directive.script)
        return ScriptSource(content, told, lost=True)
    return _as_kept(directive, kept)


def _as_kept(directive: Directive, content: bytes) -> ScriptSource:
    show_as_kept(directive.script, content)
    return ScriptSource(content, CHANGED.format(script=directive.script))


def _kept(directive: Directive) -> bytes | None:
    """What was kept, if it is what the run began with."""
    if not (directive.kept_script and directive.script_hash):
        return None
    try:
        with open_regular(Path(directive.kept_script)) as file:
            content = file.read()
    except OSError:
        return None
    known = script_hash(content, directive.args) == directive.script_hash
    return content if known else None


def _keep(content: bytes, directive: Directive) -> None:
    if directive.kept_script and directive.script_hash and _kept(directive) is None:
        with contextlib.suppress(OSError):  # told when it is missed
            write_atomically(Path(directive.kept_script), content)
