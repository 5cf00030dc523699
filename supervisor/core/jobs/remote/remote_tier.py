"""The rules of the remote tier: who may write, what is sent, what is gone on from.

Below ``ADDRESS/JOB/``::

    claims/000002-3f….json                a supervisor that took the run over, and the run
    snapshots/CLAIM.SERIAL-STEP/NNNNN-SHA256    parts of a snapshot
    snapshots/CLAIM.SERIAL-STEP/seal.json       ... which counts once this is there

Every supervisor that starts on another machine *claims* the run: the next number, and a
token of its own, so that two that claim at once are told apart. Whoever sees a higher
claim than its own writes nothing more. What is newer is a matter of claims and serials,
never of times: clocks of machines differ.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

CLAIMS = "claims"
SNAPSHOTS = "snapshots"
SEAL = "seal.json"
_CLAIM = re.compile(r"([0-9]{6,12})-([0-9a-f]{16})")
_SNAPSHOT = re.compile(r"(.+)\.([0-9]{6,12})-([0-9]{12,18})")
_PART = re.compile(r"([0-9]{5,9})-([0-9a-f]{64})")


@dataclass(frozen=True, slots=True, order=True)
class Claim:
    """The right to write, until there is a higher one."""

    number: int
    token: str

    @property
    def name(self) -> str:
        """As it stands in names."""
        return f"{self.number:06d}-{self.token}"

    @classmethod
    def of(cls, name: str) -> "Claim | None":
        """The claim of this name; None: it is none."""
        found = _CLAIM.fullmatch(name)
        return None if found is None else cls(int(found[1]), found[2])


def next_claim(claims: Iterable[Claim], token: str) -> Claim:
    """A claim above all of these."""
    highest = max((claim.number for claim in claims), default=0)
    return Claim(highest + 1, token)


@dataclass(frozen=True, slots=True, order=True)
class RemoteName:
    """The name of a snapshot in the remote tier; they are ordered by age."""

    claim: Claim
    serial: int
    step: int

    @property
    def name(self) -> str:
        """Of its directory."""
        return f"{self.claim.name}.{self.serial:06d}-{self.step:012d}"

    @property
    def local(self) -> str:
        """Of its directory in the durable tier."""
        return f"{self.step:012d}-{self.serial:06d}"

    @classmethod
    def of(cls, name: str) -> "RemoteName | None":
        """The snapshot of this name; None: it is none."""
        found = _SNAPSHOT.fullmatch(name)
        claim = None if found is None else Claim.of(found[1])
        if found is None or claim is None:
            return None
        return cls(claim, int(found[2]), int(found[3]))


def part_name(number: int, digest: str) -> str:
    """A part's own name: its place, and the SHA-256 of what is in it."""
    return f"{number:05d}-{digest}"


def digest_of(part: str) -> str | None:
    """The SHA-256 that a part's name tells; None: it is no part."""
    found = _PART.fullmatch(part)
    return None if found is None else found[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFacts:
    """What decides whether a snapshot is needed; on disk or in the remote tier."""

    serial: int
    step: int
    fit: int
    fit_done: bool
    tensors_hash: str

    @property
    def same(self) -> tuple[int, int, str]:
        """Equal in both tiers for the same snapshot."""
        return self.serial, self.step, self.tensors_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedSnapshot:
    """A snapshot that is whole in the remote tier."""

    name: RemoteName
    facts: SnapshotFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A snapshot to go on from, and the ends of the calls of ``fit`` before it."""

    newest: SealedSnapshot
    ends: tuple[SealedSnapshot, ...] = ()

    @property
    def all(self) -> tuple[SealedSnapshot, ...]:
        """What must be there to go on, the oldest first."""
        return (*self.ends, self.newest)


def needed_fits(facts: SnapshotFacts) -> range:
    """Of which calls of ``fit`` the end is needed beside it."""
    return range(facts.fit)


def chains(sealed: Iterable[SealedSnapshot]) -> list[Chain]:
    """Where a run may go on, the best first: the youngest of the highest claim."""
    ordered = sorted(sealed, key=lambda one: one.name, reverse=True)
    found: list[Chain] = []
    for at, newest in enumerate(ordered):
        if newest.facts.fit > len(ordered):
            continue  # so many ends are not there: a number of strangers is not counted up to
        ends = [_end_of(fit, ordered[at:]) for fit in needed_fits(newest.facts)]
        whole = tuple(end for end in ends if end is not None)
        if len(whole) == len(ends):
            found.append(Chain(newest=newest, ends=whole))
    return found


def _end_of(fit: int, ordered: Sequence[SealedSnapshot]) -> SealedSnapshot | None:
    ends = (one for one in ordered if one.facts.fit_done and one.facts.fit == fit)
    return next(ends, None)


def to_send(
    local: Iterable[SnapshotFacts], sealed: Iterable[SealedSnapshot]
) -> list[SnapshotFacts]:
    """What of the durable tier is sent now, in this order: the newest snapshot, and
    before it the ends that it needs. Those between are passed over: the newest counts."""
    ordered = sorted(local, key=lambda one: one.serial, reverse=True)
    if not ordered:
        return []
    newest = ordered[0]
    wanted = [newest]
    for fit in reversed(needed_fits(newest)):
        ends = (one for one in ordered if one.fit_done and one.fit == fit)
        wanted += list(ends)[:1]
    there = {one.facts.same for one in sealed}
    return [one for one in reversed(wanted) if one.same not in there]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What lies in the remote tier of one job, by name."""

    claims: tuple[Claim, ...] = ()
    parts: dict[RemoteName, dict[str, int]] = field(
        default_factory=dict[RemoteName, dict[str, int]]
    )
    """Sizes in bytes of what lies in a snapshot's directory, ``SEAL`` included."""

    @property
    def highest(self) -> Claim | None:
        """Whose turn it is to write; None: nobody's yet."""
        return max(self.claims, default=None)

    def fenced(self, claim: Claim) -> Claim | None:
        """The claim above ``claim``, whose owner must not write any more; None: none."""
        highest = self.highest
        return highest if highest is not None and highest > claim else None

    @property
    def sealed(self) -> list[RemoteName]:
        """Snapshots that say they are whole, the newest first."""
        found = [name for name, parts in self.parts.items() if SEAL in parts]
        return sorted(found, reverse=True)


def standing_of(sizes: dict[str, int]) -> Standing:
    """What a listing of names below ``ADDRESS/JOB/`` says; what is none of ours is left
    out."""
    claims: list[Claim] = []
    parts: dict[RemoteName, dict[str, int]] = {}
    for path, size in sizes.items():
        kind, _, rest = path.partition("/")
        first, _, last = rest.partition("/")
        claim = Claim.of(first.removesuffix(".json"))
        name = RemoteName.of(first)
        if kind == CLAIMS and claim is not None:
            claims.append(claim)
        elif kind == SNAPSHOTS and name is not None:
            parts.setdefault(name, {})[last] = size
    return Standing(claims=tuple(sorted(claims)), parts=parts)


def doomed(
    standing: Standing,
    sealed: Collection[SealedSnapshot],
    *,
    claim: Claim,
    keep: int,
    abandoned: Collection[str] = (),
) -> list[RemoteName]:
    """What the owner of ``claim`` removes, after it has sealed a snapshot.

    Never anything of a higher claim. Not the ``keep`` best places to go on from, nor
    what they need; of unsealed ones not what it may be sending now. ``abandoned``: names
    in the durable tier of snapshots that the run turned away from.
    """
    turned_away = {
        one.name
        for one in sealed
        if one.name.claim <= claim and one.name.local in abandoned
    }
    left = [one for one in sealed if one.name not in turned_away]
    kept = {one.name for chain in chains(left)[: max(keep, 1)] for one in chain.all}
    newest = max(kept, default=None)
    past = {name for name in standing.parts if _is_past(name, newest, claim)}
    return sorted(turned_away | (past - kept))


def _is_past(name: RemoteName, newest: RemoteName | None, claim: Claim) -> bool:
    return name.claim <= claim and newest is not None and name < newest


def useless_claims(standing: Standing, *, claim: Claim) -> list[Claim]:
    """Claims below ``claim`` of which no snapshot is left."""
    used = {name.claim for name in standing.parts}
    return [one for one in standing.claims if one < claim and one not in used]
