"""The rules by which a row holds: what was promised, and when, and what resumes proved.

A sentence that withdraws the promise counts only if it was said before the first state
was given back: whoever reads it later has believed the promise by then.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from supervisor.wire.event_file import Record, RecordKind
from supervisor.wire.snapshots.proof import Proof
from tests.certify.table import CertifyRow
from trainers.snapshots.resume_proof import ONE_ALONE


@dataclass
class PromiseLog:
    """Why bits were not promised, and which of it was said in time."""

    withdrawn: list[str] = field(default_factory=list[str])
    in_time: list[str] | None = None
    """What was said before anything was given back; None: nothing was yet."""

    def hear_attempt(self, records: Iterable[Record]) -> None:
        """All that one process said. What it says before it restores comes late, too."""
        said = list(records)
        if any(one.kind == RecordKind.RESTORED for one in said):
            self._restores()
        for record in said:
            if record.kind == RecordKind.GOES_ON:  # from its snapshot, in its process
                self._restores()
            if record.kind == RecordKind.PROMISE and not record.fields["bits"]:
                self.withdrawn.append(str(record.fields["sentence"]))

    def _restores(self) -> None:
        if self.in_time is None:
            self.in_time = list(self.withdrawn)

    @property
    def before_restart(self) -> list[str]:
        """Why not, as whoever reads it knew before the first state was given back."""
        return self.withdrawn if self.in_time is None else self.in_time


def of_promise(row: CertifyRow, promise: PromiseLog, *, bits: bool) -> list[str]:
    """What was promised and not kept, or withdrawn too late."""
    why = row.why_no_bits
    if why is None:
        withdrawn = [] if row.told else promise.withdrawn
        found = [f"not promised: {one}" for one in withdrawn]
        if not bits and not promise.before_restart:
            found.append("promised, and not the same bits")
        return found
    said = promise.withdrawn if row.disproved else promise.before_restart
    if any(why in one for one in said):
        return []
    late = any(why in one for one in promise.withdrawn)
    when = "was said too late" if late else "was never said to withdraw the promise"
    return [f"{why!r} {when}: {said}"]


UNPROVED = "no resume was proved, and the table does not say why"
EARLY = f"{UNPROVED}: each death came before the second snapshot of a fit"
LATE = "a death came so late that the place of the next one was passed for good"
BY_CHANCE = (EARLY, LATE)
"""What a busy moment does to a row."""


def by_chance(problems: Sequence[str]) -> bool:
    """Whether nothing else is wrong: the row is tried once more, killed elsewhere."""
    return len(problems) == 1 and problems[0] in BY_CHANCE


def of_proofs(
    row: CertifyRow,
    proofs: Iterable[Mapping[str, Any]],
    *,
    bits: bool,
    required: bool = True,
) -> list[str]:
    """What a proof said that is not so, and what none said although it should have;
    ``required``: False where nothing need have been resumed."""
    told = [(proof["result"], str(proof.get("because"))) for proof in proofs]
    wrong = [because for result, because in told if result == Proof.DIFFERS]
    proved = any(result == Proof.PROVED for result, _ in told)
    found = [f"exact, and disproved: {because}" for because in wrong if bits]
    if proved and not bits:
        found.append("proved, and not the same bits")
    if not required:
        return found
    if row.disproved and not wrong:
        found.append(f"no proof found what is hidden: {told}")
    expected = row.no_proof is None and row.why_no_bits is None
    if bits and expected and not proved:
        early = bool(told) and all(because == ONE_ALONE for _, because in told)
        found.append(EARLY if early else f"{UNPROVED}: {told}")
    return found
