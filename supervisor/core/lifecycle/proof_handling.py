"""What the life of a run makes of the proof of a resume."""

from dataclasses import replace

from supervisor.core.lifecycle.effects import Effect, Say, UpdateIncident
from supervisor.core.lifecycle.events import Event, ProofReported, RestartDue
from supervisor.core.lifecycle.run_state import RunPhase, RunState, Step
from supervisor.core.remediation.proofs import ResumeProof
from supervisor.core.text.log_level import LogLevel
from supervisor.wire.proof import Proof

GOES_ON = "the resume was disproved, and the run goes on from the newer snapshot"


def proof_told(run: RunState, event: Event, _now: float) -> Step:
    """A proof began, or came to its end; where it ends the attempt, another follows."""
    assert isinstance(event, ProofReported)  # noqa: S101  # by the table
    known = replace(run, history=run.history.updated(proof=event.proof))
    if event.proof.result is Proof.BEGUN:
        return known, ()
    if event.ends and run.phase is RunPhase.RUNNING:
        known = replace(known, restart=RestartDue(GOES_ON))
    return known, _effects(run, event.proof)


def _effects(run: RunState, proof: ResumeProof) -> tuple[Effect, ...]:
    wrong = proof.result is Proof.DIFFERS
    level = LogLevel.WARNING if wrong else LogLevel.INFO
    said = Say(f"attempt {run.attempt}: {proof.sentence}", level)
    ended = [one for one in run.history.attempts[:-1] if one.started]
    if not ended:
        return (said,)
    return said, UpdateIncident(attempt=ended[-1].number, proof=proof)
