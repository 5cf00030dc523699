"""A resume is put to the proof: what the run makes of it."""

from dataclasses import replace

from supervisor.core.jobs.job_status import JobState
from supervisor.core.lifecycle.effects import (
    Launch,
    RecordIncident,
    Say,
    UpdateIncident,
)
from supervisor.core.lifecycle.events import (
    DeadlineExpired,
    DrainRequested,
    GateClear,
    ProofReported,
    Spawned,
)
from supervisor.core.lifecycle.run_state import RunState
from supervisor.core.remediation.proofs import ResumeProof
from supervisor.core.text.log_level import LogLevel
from supervisor.wire.snapshots.proof import Proof
from tests.support.lives import POLICY, drained, fresh, happen, killed

NEXT = (DeadlineExpired(), GateClear(), Spawned(7))
BEGUN = ProofReported(proof=ResumeProof(result=Proof.BEGUN), ends=False)
PROVED = ProofReported(
    proof=ResumeProof(result=Proof.PROVED, steps=4, tensors=60, seconds=0.5), ends=False
)
DIFFERS = ProofReported(
    proof=ResumeProof(result=Proof.DIFFERS, because="1 of 9 variables (a)"), ends=True
)


def resumed() -> RunState:
    """A run whose second attempt goes on after a kill; restarts prove themselves."""
    run = replace(fresh(), policy=replace(POLICY, proof="first"))
    return happen(run, *NEXT, killed(), *NEXT)[0]


def test_the_first_attempt_has_nothing_to_prove_and_the_second_is_asked_to() -> None:
    """The third is not, once that was proved."""
    run = replace(fresh(), policy=replace(POLICY, proof="first"))
    end = (BEGUN, PROVED, killed(30, 28))
    _, effects = happen(run, *NEXT, killed(), *NEXT, *end, *NEXT)
    launches = [effect for effect in effects if isinstance(effect, Launch)]
    assert [launch.prove for launch in launches] == [False, True, False]


def test_what_was_proved_is_said_and_kept_with_the_incident() -> None:
    """Of the attempt before, whose end made the resume necessary."""
    run, effects = happen(resumed(), BEGUN, PROVED)
    said, update = effects
    assert isinstance(said, Say)
    assert "proved: this resume continued to the bit" in said.text
    assert update == UpdateIncident(attempt=1, proof=PROVED.proof)
    assert run.history.newest_proof == PROVED.proof


def test_what_was_disproved_goes_on_from_the_newer_snapshot() -> None:
    """The attempt ends by itself: another follows, and that is no incident, nor is the
    next one asked to prove anything."""
    run, effects = happen(resumed(), BEGUN, DIFFERS)
    said = effects[0]
    assert isinstance(said, Say)
    assert said.level is LogLevel.WARNING
    run, effects = happen(run, drained(), *NEXT)
    assert not [one for one in effects if isinstance(one, RecordIncident)]
    assert [one.prove for one in effects if isinstance(one, Launch)] == [False]
    assert run.state is JobState.RUNNING


def test_a_run_that_is_asked_to_end_does_all_the_same() -> None:
    """What was disproved does not start it again."""
    run, _ = happen(resumed(), DrainRequested("SIGTERM"), DIFFERS, drained())
    assert run.state is JobState.DRAINED


def test_a_resume_by_hand_has_no_incident_to_be_kept_with() -> None:
    """It is said, and known of the attempt."""
    run, effects = happen(fresh(), *NEXT, PROVED)
    assert not [one for one in effects if isinstance(one, UpdateIncident)]
    assert run.history.newest_proof == PROVED.proof
