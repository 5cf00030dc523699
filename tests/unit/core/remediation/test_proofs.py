"""Which restarts prove themselves, and what is said of it."""

from collections import Counter
from typing import Any

import pytest

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.explain import explain_incident
from supervisor.core.remediation.history import AttemptHistory, History
from supervisor.core.remediation.overrides import Overrides
from supervisor.core.remediation.proofs import ProofRule, ResumeProof, to_prove
from supervisor.wire.snapshots.proof import Proof

PROVED = ResumeProof(result=Proof.PROVED, steps=4, tensors=60, seconds=0.5)
DIFFERS = ResumeProof(
    result=Proof.DIFFERS, because="2 of 9 variables (a, b)", steps=4, tensors=60
)
SKIPPED = ResumeProof(result=Proof.SKIPPED, because="there is no older snapshot")
BEGUN = ResumeProof(result=Proof.BEGUN)


@pytest.mark.parametrize(
    ("rule", "earlier", "last", "wanted"),
    [
        ("first", [], None, True),
        ("first", [Proof.SKIPPED], Proof.SKIPPED, True),
        ("first", [Proof.PROVED], None, False),
        ("each", [Proof.PROVED], Proof.PROVED, True),
        ("each", [Proof.DIFFERS], None, False),
        ("each", [Proof.BEGUN], Proof.BEGUN, False),
        ("each", [], Proof.DIFFERS, False),
        ("off", [], None, False),
    ],
)
def test_when_a_resume_is_put_to_the_proof(
    rule: ProofRule, earlier: list[Proof], last: Proof | None, *, wanted: bool
) -> None:
    """Once by default; never after one that was disproved, or that ended in the middle."""
    assert to_prove(rule, Counter(earlier), last=last) is wanted


@pytest.mark.parametrize(
    ("proof", "sentence"),
    [
        (
            PROVED,
            "proved: this resume continued to the bit (4 steps, 60 tensors, 0.5 s)",
        ),
        (
            DIFFERS,
            (
                "disproved: this resume did not continue to the bit:"
                " 2 of 9 variables (a, b) differ (4 steps, 60 tensors)"
            ),
        ),
        (
            ResumeProof(result=Proof.DIFFERS, because="it ended before"),
            "disproved: this resume did not continue to the bit: it ended before",
        ),
        (SKIPPED, "not proved: there is no older snapshot"),
        (BEGUN, "its proof was not finished"),
    ],
)
def test_each_result_has_its_sentence(proof: ResumeProof, sentence: str) -> None:
    """With what was compared, and what it took."""
    assert proof.sentence == sentence
    assert proof.to_json()["sentence"] == sentence


def test_a_history_adds_up_its_proofs() -> None:
    """The newest that came to an end is told; those with the same overrides count for
    the next restart; thinned ones stay in the sum."""
    sliced = Overrides(deterministic=True)
    attempts = (
        AttemptHistory(number=1),
        AttemptHistory(number=2, proof=PROVED),
        AttemptHistory(number=3, proof=DIFFERS, overrides=sliced),
        AttemptHistory(number=4, proof=BEGUN, overrides=sliced),
    )
    history = History(attempts=attempts)
    assert history.newest_proof == DIFFERS
    assert history.proofs(overrides=None) == {Proof.PROVED: 1}
    assert history.proofs(overrides=sliced) == {Proof.DIFFERS: 1, Proof.BEGUN: 1}
    assert history.proof_seconds == 0.5
    many = [
        AttemptHistory(number=n, proof=PROVED, snapshot_step=n) for n in range(1, 700)
    ]
    thinned = History(attempts=tuple(many)).thinned()
    assert len(thinned.attempts) < len(many)
    assert thinned.all_proofs == {Proof.PROVED: len(many)}
    assert thinned.proof_seconds == len(many) * 0.5
    assert History().newest_proof is None


def test_an_attempt_that_was_disproved_spends_no_budget() -> None:
    """It brought no newer snapshot, since it was to bring none."""

    def history(proof: ResumeProof | None) -> History:
        ends = (
            AttemptHistory(number=1, cause=Cause.PREEMPTED, snapshot_step=8),
            AttemptHistory(
                number=2, cause=Cause.PREEMPTED, snapshot_step=8, proof=proof
            ),
            AttemptHistory(number=3, cause=Cause.PREEMPTED, snapshot_step=8),
        )
        return History(attempts=ends)

    assert history(None).fruitless() == 2
    assert history(DIFFERS).fruitless() == 1


def test_an_incident_explains_the_resume_after_it() -> None:
    """In a paragraph of its own."""
    incident: dict[str, Any] = {
        "job": "digits",
        "attempt": 1,
        "cause": "preempted",
        "because": [],
        "remedy": {"kind": "restart", "changes": {}, "because": "go on"},
        "failed_step": 26,
        "restored_step": 24,
        "lost_steps": 2,
        "downtime_seconds": 5.0,
        "proof": PROVED.to_json(),
    }
    assert "The resume after it: proved: this resume continued" in explain_incident(
        incident
    )
