"""Whether the next attempt proves its resume, and what came of such proofs."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Literal

from supervisor.core.text.units import counted, format_duration
from supervisor.wire.snapshots.proof import Proof

ProofRule = Literal["first", "each", "off"]
"""``first``: once, and again whenever what is in force has changed."""

RESULTS = (Proof.PROVED, Proof.DIFFERS, Proof.SKIPPED)
"""What can come of one; an attempt that ends in the middle of one leaves it begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeProof:
    """What an attempt said of the proof of its resume."""

    result: Proof
    because: str = ""
    """What differs, or why there was none."""
    steps: int | None = None
    """From the older snapshot to the newer."""
    tensors: int | None = None
    """Compared there."""
    seconds: float | None = None
    """What it took: done again, but not lost."""

    def to_json(self) -> dict[str, object]:
        """As ``incidents --json`` prints it."""
        return {**asdict(self), "sentence": self.sentence}

    @property
    def sentence(self) -> str:
        """For people."""
        figures = f"{counted(self.steps or 0, 'step')}, {counted(self.tensors or 0, 'tensor')}"
        took = "" if self.seconds is None else f", {format_duration(self.seconds)}"
        match self.result:
            case Proof.PROVED:
                return f"proved: this resume continued to the bit ({figures}{took})"
            case Proof.DIFFERS:
                differ = f"{self.because} differ ({figures}{took})"
                return (
                    "disproved: this resume did not continue to the bit: "
                    f"{differ if self.tensors else self.because}"
                )
            case Proof.SKIPPED:
                return f"not proved: {self.because}"
            case _:
                return "its proof was not finished"


def to_prove(rule: ProofRule, earlier: Counter[Proof], *, last: Proof | None) -> bool:
    """Whether the next attempt begins with a proof.

    ``earlier``: results of the attempts that had in force what it will have. ``last``:
    that of the newest attempt. One that ended in the middle of its proof is not followed
    by another: the run has to get on. What was disproved once need not be so again.
    """
    if rule == "off" or last in {Proof.BEGUN, Proof.DIFFERS} or earlier[Proof.DIFFERS]:
        return False
    return rule == "each" or not earlier[Proof.PROVED]
