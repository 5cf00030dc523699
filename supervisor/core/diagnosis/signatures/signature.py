"""A signature: one row of knowledge about a line that programs print."""

import enum
import re
from dataclasses import dataclass
from functools import cached_property, partial

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.signatures.literals import required_literals


class Role(enum.StrEnum):
    """What a line that matches says about the end of the run."""

    ROOT = "root"
    """It names a cause."""
    CASCADE = "cascade"
    """It follows from something else, or only hints: it decides when nothing better
    is known, and only if something did fail."""
    GUESS = "guess"
    """Something failed, and it lists what may be why: no other row may use the line."""
    BENIGN = "benign"
    """It looks terrible and means nothing: no other row may use that line."""


class Where(enum.StrEnum):
    """Where in a line the pattern is looked for."""

    LINE = "line"
    """Anywhere."""
    EXCEPTION = "exception"
    """At the start of ``module.Name: message``, the last line of a traceback; the
    module is optional there."""
    END = "end"
    """Anywhere in one of the last lines of a log: in others it tells nothing."""


HINT = 5
"""Something that often comes before a failure, and as often before none."""
SYMPTOM = 20
"""A process that aborts, a peer that is gone: somebody else's doing."""
EXCEPTION = 30
"""The type of an uncaught exception, with no better sign."""
LIBRARY = 50
"""A status of a library, which may be a consequence of memory or of a fault."""
CAUSE = 70
"""Names the thing itself: memory, a fault, a version, a full disk."""
HARDWARE = 90
"""Nothing that software does."""


@dataclass(frozen=True, kw_only=True)
class Signature:
    """One row: if ``pattern`` is found ``where`` said, the line speaks for ``cause``.

    Patterns are compiled when a line is first looked at: most commands look at none, and to
    compile all of them was a sixth of their start.
    """

    id: str
    cause: Cause
    role: Role
    weight: int
    """How much it explains; where two disagree, the heavier is the root."""
    pattern: str
    source: str
    """Where the message comes from."""
    where: Where = Where.LINE

    @cached_property
    def anchors(self) -> tuple[str, ...]:
        """One of these stands in every line that matches: what is looked for first."""
        return required_literals(self.pattern)

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        lead = r"(?:[A-Za-z_]\w*\.)*" if self.where is Where.EXCEPTION else ""
        return re.compile(lead + self.pattern)

    def matches(self, line: str, exception: str | None) -> bool:
        """Whether this row recognises ``line``.

        ``exception``: the line from the exception's name on, if it is such a line.
        Asked only where one of the anchors stands in ``line``.
        """
        if self.where is Where.EXCEPTION:
            return exception is not None and bool(self._compiled.match(exception))
        return self._compiled.search(line) is not None


_ENDED = (
    "exit (?:status )?code|Exit code|Exit Code|EXIT CODE|exit status"
    "|xited with (?:status |exit )?code|xited with status|exitcode|exitCode"
    "|return code|returncode|non-zero status of|ExitCode"
)
_BETWEEN = r"['\"]?\s*(?:[:=(]|is\b|was\b)?\s*"


def ended_with(*numbers: int) -> str:
    """A pattern of how launchers and container runtimes tell of an exit status."""
    either = "|".join(str(number) for number in numbers)
    return rf"(?:{_ENDED}){_BETWEEN}(?:{either})\b"


def failed_with() -> str:
    """A pattern of how they tell of an exit status that is not 0."""
    return (
        rf"(?:{_ENDED}){_BETWEEN}-?[1-9]\d*\b"
        r"|non-zero (?:exit )?(?:code|status)|nonzero exit"
    )


def row(
    name: str,
    cause: Cause,
    weight: int,
    *texts: str,
    rx: str | None = None,
    src: str,
    role: Role = Role.ROOT,
    where: Where = Where.LINE,
) -> Signature:
    """A row of lines that hold one of ``texts``, or match ``rx``."""
    pattern = rx if rx is not None else "|".join(re.escape(each) for each in texts)
    return Signature(
        id=name,
        cause=cause,
        role=role,
        weight=weight,
        pattern=pattern,
        source=src,
        where=where,
    )


def benign(name: str, *texts: str, rx: str | None = None, src: str) -> Signature:
    """A row of a line that means nothing."""
    return row(name, Cause.NONE, 0, *texts, rx=rx, src=src, role=Role.BENIGN)


cascade = partial(row, role=Role.CASCADE)
"""A row of a line that follows from something else."""


def raised(
    name: str, cause: Cause, weight: int, *types: str, rx: str = "", src: str
) -> Signature:
    """A row of an exception whose type is one of ``types`` and whose message, behind
    the colon, matches ``rx``."""
    either = "|".join(re.escape(each) for each in types)
    return row(
        name,
        cause,
        weight,
        rx=rf"(?:{either})(?=:|\s|$){rx}",
        src=src,
        where=Where.EXCEPTION,
    )
