"""The certificate of a script: whether runs of it that were killed end as one that was not."""

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from supervisor.core.jobs.changing_lines import ChangingLine, likeliest
from supervisor.core.jobs.compared_names import in_words
from supervisor.core.text.units import counted

NAMED = 8
"""Of what differs, so many kinds are named."""
PLACE = re.compile(r"\S+:\d+ ")
"""A line of the script, at the beginning of a reason."""
LINES = 5
"""Of the script's lines, so many are shown."""


class Outcome(enum.StrEnum):
    """What came of it."""

    CERTIFIED = "certified"
    DIFFERS = "differs"
    """The run that was killed left something else."""
    NOT_REPRODUCIBLE = "not_reproducible"
    """So do two runs that nobody disturbs: nothing can be said about the killed one."""
    NOT_TRIED = "not_tried"
    """It was never killed, or left nothing to compare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """What two runs left, side by side."""

    tensors: int
    files: int
    """So many of each were compared."""
    differ: tuple[str, ...] = ()
    """Tensors, values and files that are not the same, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A run that was left alone beside one that was killed."""

    steps: int
    killed_at: tuple[int, ...]
    """The steps after which it was killed, as its incidents number them."""
    kills: int
    """So many were planned."""
    seconds: float
    comparison: RunComparison
    undisturbed: RunComparison | None = None
    """Of two runs that were left alone; None: there was no need to look."""
    unpromised: tuple[str, ...] = ()
    """Why a run said that bits are not promised, each reason; empty: they were promised."""
    too_late: tuple[str, ...] = ()
    """Those of them that the killed run had not said before it was killed."""
    failures: tuple[str, ...] = field(default=())
    """Ends of attempts that nobody planned: their causes."""
    changing: tuple[ChangingLine, ...] = field(default=())
    """Lines of the script where its functions change what lives outside of them."""

    @property
    def promise(self) -> str | None:
        """The first of ``unpromised``; None: bits were promised."""
        return next(iter(self.unpromised), None)

    @property
    def by_itself(self) -> frozenset[str]:
        """What differs whether a run is killed or not."""
        return frozenset(self.undisturbed.differ if self.undisturbed else ())

    @property
    def by_kill(self) -> tuple[str, ...]:
        """What differs only where a run is killed."""
        mine, drawn = self.comparison.differ, {_stream(one) for one in self.by_itself}
        return tuple(name for name in mine if _stream(name) not in drawn)

    @property
    def outcome(self) -> Outcome:
        """In one word."""
        compared = self.comparison.tensors + self.comparison.files
        if not self.killed_at or not compared:
            return Outcome.NOT_TRIED
        if self.by_kill:
            return Outcome.DIFFERS
        if self.by_itself:
            return Outcome.NOT_REPRODUCIBLE
        return Outcome.CERTIFIED

    @property
    def lines(self) -> list[str]:
        """For people: the verdict first."""
        return [*self._verdict(), *self._not_killed(), *self._failures()]

    def _not_killed(self) -> list[str]:
        came = len(self.killed_at)
        if not 0 < came < self.kills:
            return []
        return [
            f"{came} of {self.kills} kills came: the run was over before the others"
        ]

    def _verdict(self) -> list[str]:
        found = self.comparison
        places = ", ".join(map(str, self.killed_at))
        killed = f"{self.steps} steps, killed after {places}"
        files = counted(found.files, "file")
        what = (
            f"{counted(found.tensors, 'tensor')} and {files}"
            if found.tensors
            else files
        )
        match self.outcome:
            case Outcome.NOT_TRIED:
                return [f"not certified: {self._why_not_tried()}"]
            case Outcome.CERTIFIED:
                return [
                    (
                        f"certified ({killed}): {what} are the same to the bit as in a run"
                        " that nobody disturbed"
                    ),
                    *([] if found.tensors else [FILES_OF_A_LOOP]),
                    *self._despite(),
                ]
            case Outcome.NOT_REPRODUCIBLE:
                return [
                    f"no verdict ({killed}): two runs that nobody disturbs differ, too",
                    *(said_before(self.unpromised) or [NOT_REPRODUCIBLE]),
                    f"they differ in {_listed(tuple(sorted(self.by_itself)))}",
                ]
            case _:
                return [
                    (
                        f"not certified ({killed}): it differs from a run that nobody"
                        f" disturbed in {counted(len(self.by_kill), 'place')} of {what},"
                        " callbacks and what else a snapshot holds"
                    ),
                    *self._because(),
                    f"they are {_listed(self.by_kill)}",
                    *self._where_to_look(),
                    *self._also_by_itself(),
                ]

    def _why_not_tried(self) -> str:
        if not self.killed_at and self.promise is not None:
            return f"it was not killed, as no step of it is saved: {self.promise}"
        if not self.killed_at:
            return NO_STEP
        return "it left no snapshot and no file that could be compared"

    def _despite(self) -> list[str]:
        return [
            f"the run itself did not promise that: {one}" for one in self.unpromised
        ]

    def _because(self) -> list[str]:
        if self.unpromised:
            before = [one for one in self.unpromised if one not in self.too_late]
            return [*said_before(before), *map(TOO_LATE.format, self.too_late)]
        if all(name.startswith(FILE) for name in self.by_kill):
            return [FILES_ALONE if self.comparison.tensors else FILES]
        return [HIDDEN]

    def _where_to_look(self) -> list[str]:
        """Lines to change; none where files alone differ, which training does not read."""
        if all(name.startswith(FILE) for name in self.by_kill):
            return []
        lines = likeliest(self.changing, " ".join(self.unpromised), LINES)
        if not lines:
            return []
        return ["where to look in the script:", *(f"  {line}" for line in lines)]

    def _also_by_itself(self) -> list[str]:
        if not self.by_itself:
            return []
        named = _listed(tuple(sorted(self.by_itself)))
        return [f"these differ between runs that nobody disturbs, too: {named}"]

    def _failures(self) -> list[str]:
        return [
            f"on the way an attempt failed by itself: {one}" for one in self.failures
        ]


def _stream(name: str) -> str:
    """The generator whose state ``name`` is a number of; others are themselves. Of one that
    begins with another seed each time some numbers are the same by chance, such as its
    place."""
    return name.partition(".v[")[0] if name.startswith(RANDOM) else name


NO_STEP = (
    "no step was seen after which it could be killed: those of fit are, and those that"
    " apply an optimizer of Keras; a loop that updates its variables by hand is done again"
    " from the script's top"
)
RANDOM = "random."
"""How the names of states of random generators begin."""
FILE = "file "
"""How the name of a file begins among what differs."""
NOT_REPRODUCIBLE = (
    "something decides about them that is drawn anew in each run: the time, os.urandom,"
    " the order in which threads come, or operations that are not deterministic"
    " (tf.config.experimental.enable_op_determinism)"
)
FILES_OF_A_LOOP = (
    "no fit ended at the same step in both, so that no weights could be compared: of a loop of"
    " the script's own these files tell, where it writes its result"
)
TOO_LATE = "bits were promised until it was killed; only later it, or the undisturbed run, said: {}"
FILES_ALONE = (
    "the tensors are the same. The script writes these files so that a restart shows in them,"
    " and a restart has not put them back: its log says which files it left, and why"
    " (files.rewind); write them after fit. Or what it writes there is in no snapshot:"
    " something that training does not read"
)
FILES = (
    "no tensors of a fit could be compared, so that nothing but files tells whether training"
    " is the same: if one of these holds its result, it is not; else the script writes them"
    " so that a restart shows in them (files.rewind)"
)
HIDDEN = (
    "the run had promised bits: training depends on something that is in no snapshot."
    " Look for globals, closures, generators and files that the data, losses, layers or"
    " callbacks change as they go, and keep them in attributes of a callback"
)


def said_before(unpromised: Sequence[str]) -> list[str]:
    """That a run had told each of the reasons: of those that begin with the same line of
    the script, the first."""
    found: dict[str, str] = {}
    for one in unpromised:
        place = PLACE.match(one)
        found.setdefault(one if place is None else place[0], one)
    return [f"the run had said so: {one}" for one in found.values()]


def kills_among(steps: int, draws: Sequence[float]) -> tuple[int, ...]:
    """After which steps of ``steps`` a run is killed, in order: one in each of as many
    parts of it as there are ``draws`` (0 to below 1), fewer where there are fewer steps."""
    parts = max(min(len(draws), steps - 1), 0)
    bounds = [1 + (steps - 1) * part // max(parts, 1) for part in range(parts + 1)]
    return tuple(
        low + int(draw * (high - low))
        for low, high, draw in zip(bounds, bounds[1:], draws, strict=False)
    )


def deaths_among(
    planned: Sequence[int], failed: Sequence[int | None]
) -> tuple[int, ...]:
    """After which steps it was killed: as each incident tells it (None: it knows of no
    step), since between the step that was drawn and the kill there is some time."""
    return tuple(
        step if told is None else told
        for step, told in zip(planned, failed, strict=False)
    )


def _listed(paths: tuple[str, ...]) -> str:
    names = in_words(paths)
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
