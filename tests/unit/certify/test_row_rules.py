"""When a row of ``make certify`` holds."""

import pytest

from supervisor.wire.event_file import Record, RecordKind
from supervisor.wire.snapshots.proof import Proof
from tests.certify.out_of_memory import reached
from tests.certify.row_rules import (
    EARLY,
    LATE,
    PromiseLog,
    by_chance,
    of_promise,
    of_proofs,
)
from tests.certify.table import CertifyRow, NoProof

WHY = "draws from os.urandom"
WITHDRAWN = Record(RecordKind.PROMISE, 0, {"bits": False, "sentence": f"it {WHY}"})
GIVEN = Record(RecordKind.PROMISE, 0, {"bits": True, "sentence": "exact to the bit"})
RESTORED = Record(RecordKind.RESTORED, 0, {"step": 3})
GOES_ON = Record(RecordKind.GOES_ON, 0, {"step": 3})
INEXACT = CertifyRow(name="x", features="", why_no_bits=WHY)
EXACT = CertifyRow(name="x", features="")
HIDDEN = CertifyRow(name="x", features="", why_no_bits=WHY, disproved=True)
TOLD = CertifyRow(name="x", features="", told="something else")


def heard(*attempts: tuple[Record, ...]) -> PromiseLog:
    """What these said, one after the other."""
    log = PromiseLog()
    for attempt in attempts:
        log.hear_attempt(attempt)
    return log


@pytest.mark.parametrize(
    "attempts",
    [
        ((GIVEN, WITHDRAWN), (WITHDRAWN, RESTORED)),
        ((GIVEN,), (WITHDRAWN,), (RESTORED,)),
        ((WITHDRAWN, GOES_ON),),
        ((WITHDRAWN,),),
    ],
)
def test_a_sentence_before_the_first_restart_is_in_time(
    attempts: tuple[tuple[Record, ...], ...],
) -> None:
    """Also in a later attempt, where the earlier ones had nothing to go on from."""
    assert of_promise(INEXACT, heard(*attempts), bits=False) == []


@pytest.mark.parametrize(
    "attempts",
    [
        ((GIVEN,), (WITHDRAWN, RESTORED)),
        ((GIVEN,), (RESTORED, WITHDRAWN)),
        ((GIVEN, GOES_ON, WITHDRAWN),),
        ((GIVEN,), (GIVEN, RESTORED)),
    ],
)
def test_a_later_one_is_too_late(attempts: tuple[tuple[Record, ...], ...]) -> None:
    """Said as the other data are found, say; or never."""
    assert of_promise(INEXACT, heard(*attempts), bits=False)
    if any(WITHDRAWN in one for one in attempts):
        assert of_promise(HIDDEN, heard(*attempts), bits=False) == []


def test_what_is_promised_ends_the_same() -> None:
    """A row that ends otherwise has failed, whatever else it tells."""
    promised = heard((GIVEN,), (GIVEN, RESTORED))
    assert of_promise(EXACT, promised, bits=True) == []
    assert of_promise(EXACT, promised, bits=False)
    assert of_promise(TOLD, promised, bits=False)
    assert of_promise(EXACT, heard((WITHDRAWN,)), bits=True)
    assert of_promise(TOLD, heard((WITHDRAWN,)), bits=True) == []


def proof(result: Proof) -> dict[str, object]:
    """The fields of its record."""
    return {"result": result, "because": "of something"}


def test_an_exact_row_is_proved_or_says_why_not() -> None:
    """A proof that is left out each time shows nothing."""
    skipped = [proof(Proof.SKIPPED)] * 3
    assert of_proofs(EXACT, skipped, bits=True)
    assert of_proofs(EXACT, [], bits=True)
    assert of_proofs(EXACT, [*skipped, proof(Proof.PROVED)], bits=True) == []
    said = CertifyRow(name="x", features="", no_proof=NoProof.SESSION)
    assert of_proofs(said, skipped, bits=True) == []
    assert of_proofs(INEXACT, skipped, bits=False) == []


def test_a_proof_says_what_is_so() -> None:
    """Never proved where it ends otherwise; where state is hidden it finds that."""
    assert of_proofs(EXACT, [proof(Proof.DIFFERS), proof(Proof.PROVED)], bits=True)
    assert of_proofs(INEXACT, [proof(Proof.PROVED)], bits=False)
    assert of_proofs(HIDDEN, [proof(Proof.DIFFERS)], bits=False) == []
    assert of_proofs(HIDDEN, [proof(Proof.SKIPPED)], bits=False)


def test_where_nothing_need_be_resumed_no_proof_is_missed() -> None:
    """A run that goes on in its process may have lost its loss too early for one; what a
    proof said has to be so there as well."""
    assert of_proofs(EXACT, [], bits=True, required=False) == []
    assert of_proofs(HIDDEN, [], bits=False, required=False) == []
    assert of_proofs(EXACT, [proof(Proof.DIFFERS)], bits=True, required=False)
    assert of_proofs(EXACT, [proof(Proof.PROVED)], bits=False, required=False)


def test_what_a_busy_moment_does() -> None:
    """It is tried again; what else is wrong is not covered by that."""
    assert by_chance([EARLY])
    assert by_chance([LATE])
    for wrong in ([], ["promised, and not the same bits"], [LATE, "other"]):
        assert not by_chance(wrong)


def test_places_of_an_epoch_that_never_came_are_none_to_die_at() -> None:
    """Training that its validation stops may stop earlier than without us."""
    line = {"model": 0, "fit": 0, "from": 0, "to": 1, "ids": [1]}
    lines = [{**line, "epoch": epoch} for epoch in (0, 1)]
    places = ["step:0:0:2", "step:0:1:5", "step:0:2:0", "step:1:0:0"]
    assert reached(places, lines) == places[:2]
