"""What a row of the chaos table is: a fault, and what has to come of it."""

import enum
from dataclasses import dataclass


class ExpectedEnd(enum.StrEnum):
    """How the run has to end."""

    IDENTICAL = "identical"
    """Finished, with the bits of a run that nothing happened to."""
    FINISHED = "finished"
    """Finished; bits are not promised (slices), or nothing is trained."""
    STOPPED = "stopped"
    """Given up at exit 1, with the sentence of the row."""


class MachineNeed(enum.StrEnum):
    """What a row needs of the machine. Without it the row is skipped, saying so."""

    MEMORY_CGROUP = "a memory cgroup that we may make"
    FREEZER = "a freezer cgroup (v1) that we may make"
    MOUNT = "root, to mount a small tmpfs"
    COMPILER = "a C compiler"
    PACKAGE = "a copy of an installed package, to be changed"
    ROOT = "root, to give a file to another user"
    NVML = "a C compiler and nvml.h, for an NVML of our own"


@dataclass(frozen=True, slots=True)
class Crash:
    """One incident, in its order."""

    cause: str
    remedy: str
    """A ``RemedyKind``, or several of which each will do: ``microbatch|restart``."""
    quotes: str = ""
    """A regular expression that has to match in the reasons of the diagnosis."""
    many: bool = False
    """Such incidents may follow one another."""
    in_place: bool = False
    """Its process went on after it."""
    maybe: bool = False
    """It may be missing: a warning that the fault is faster than."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosRow:
    """One fault. ``{path}`` in options stands for the file system, the cgroup, or the
    place of the package."""

    name: str
    what: str
    """In words, for the matrix."""
    fault: str
    """Of ``trainers/reference/misbehave.py``."""
    options: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    """Options of ``trainwarden run``."""
    spec: str = ""
    """More of the spec, as TOML."""
    standby: bool = False
    """The next attempt is started early."""
    environment: tuple[tuple[str, str], ...] = ()
    crashes: tuple[Crash, ...] = ()
    end: ExpectedEnd = ExpectedEnd.IDENTICAL
    sentence: str = ""
    """A regular expression that has to match in what the command prints."""
    again: int = 0
    """How often the same command is run again after 75, or after it was killed."""
    needs: MachineNeed | None = None
    limit_mib: int = 0
    """Of the cgroup or the tmpfs that ``needs`` stands for."""
    frees: bool = False
    """What is in the way goes away once the first incident is there: the file that
    fills the tmpfs, the frost of the cgroup, the tenant of the GPU."""
    apart: bool = False
    """The state directory is not on the small file system: that is the script's own."""
    log_at_most_mib: int | None = None
    """What the log of an attempt may take on disk."""
    gpus: int = 0
    """How many GPUs the NVML of our own shows."""
    fast: bool = False
    """Also runs in ``make test``."""
    pending: str = ""
    """Why it does not hold yet; empty: it has to."""

    @property
    def training(self) -> tuple[str, ...]:
        """What of ``options`` decides the bits of the result."""
        return tuple(one for one in self.options if one in DECIDES)


DECIDES = frozenset({"--plain", "--hungry", "--jit", "--records", "--notice"})
