"""What holds of a diagnosis whatever the evidence."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.diagnose import diagnose
from supervisor.core.diagnosis.evidence import Evidence, Killed, Refusal
from supervisor.core.diagnosis.exit_status import SIGNALS
from supervisor.core.diagnosis.log_scanner import scan
from supervisor.core.diagnosis.scoring import claims_of
from supervisor.core.diagnosis.signatures.all_rows import SIGNATURES
from supervisor.core.memory.figures import MemoryFigures
from supervisor.wire.reasons import KillReason, RefusalReason
from tests.support.evidence import FAULT, HOLES, MKL, OOM, STEPS, crash, ours, seen

logs = st.lists(
    st.sampled_from([OOM, HOLES, MKL, FAULT, STEPS, "KeyError: 'a'", "loss: nan", "x"]),
    max_size=6,
).map(lambda lines: seen("\n".join(lines)))
crashes = st.none() | st.builds(
    crash,
    st.sampled_from(["KeyError", "a.InternalError", "MemoryError", "Odd"]),
    st.text(max_size=10),
    st.sampled_from(["", OOM, FAULT]),
)
exits = st.none() | st.one_of(
    st.builds(ours, st.integers(0, 255)),
    st.builds(ours, st.none(), st.sampled_from([*SIGNALS, 60])),
)
counts = st.none() | st.integers(0, 5000)
evidences = st.builds(
    Evidence,
    exit=exits,
    crash=crashes,
    log=logs,
    fault=logs,
    kernel=logs,
    dump=st.none()
    | st.builds(
        MemoryFigures,
        free_bytes=counts,
        requested_bytes=counts,
        limit_bytes=counts,
        in_use_bytes=counts,
        allocator=st.sampled_from([None, "mklcpu", "GPU_0_bfc"]),
    ),
    limited=st.booleans(),
    no_room=st.booleans(),
    refused=st.none()
    | st.builds(
        Refusal, reason=st.sampled_from(RefusalReason), sentence=st.text(max_size=10)
    ),
    finished=st.booleans(),
    drained=st.booleans(),
    steps_done=counts,
    cgroup_oom_kills=counts,
    oom_kills_before_kill=counts,
    grace_seconds=st.none() | st.floats(0.0, 1e6),
    stop_requested=st.booleans(),
    killed=st.none()
    | st.builds(
        Killed, reason=st.sampled_from(KillReason), sentence=st.text(max_size=10)
    ),
    log_only=st.booleans(),
)


@settings(max_examples=300, deadline=None)
@given(evidences)
def test_a_diagnosis_is_total_and_has_reasons(evidence: Evidence) -> None:
    """Whatever is known, there is one answer, the same each time, and it says why."""
    diagnosis = diagnose(evidence)
    assert diagnosis == diagnose(evidence)
    assert bool(diagnosis.because) == (diagnosis.cause is not Cause.NONE)
    assert bool(diagnosis.advice) == (diagnosis.cause is not Cause.NONE)
    assert all(reason.signature for reason in diagnosis.because)


SENTENCES = st.text(max_size=60) | st.sampled_from(
    [
        "keras 9.1 is not supported",
        "a batch of 8 samples does not fit into memory and is not sliced, as x",
        "/home/u/proj-1.2/part.py, which the script imports, was changed",
        "unkillable: process 7 hangs in the kernel (D state)",
    ]
)


@settings(deadline=None)
@given(evidences, SENTENCES)
def test_no_cause_depends_on_a_sentence_of_ours(evidence: Evidence, text: str) -> None:
    """Why training was refused, or was killed, is an enum; its sentence is for people."""
    refused, killed = evidence.refused, evidence.killed
    said = replace(
        evidence,
        refused=None if refused is None else replace(refused, sentence=text),
        killed=None if killed is None else replace(killed, sentence=text),
    )
    assert diagnose(said).cause == diagnose(evidence).cause


@settings(deadline=None)
@given(evidences, st.randoms())
def test_the_order_of_the_hits_does_not_matter(evidence: Evidence, dice: Any) -> None:
    """Lines carry their place in time; how they are handed over says nothing."""
    hits = list(evidence.log.hits)
    dice.shuffle(hits)
    shuffled = replace(evidence, log=replace(evidence.log, hits=tuple(hits)))
    if not evidence.log_only:
        assert diagnose(shuffled).cause == diagnose(evidence).cause


@settings(deadline=None)
@given(evidences)
def test_a_root_cause_is_not_moved_by_a_cascade(evidence: Evidence) -> None:
    """Adding a line that only follows from others never changes a root's answer; one
    that training outlived is an answer only where there is no other."""
    rows = {row.id: row for row in SIGNATURES}
    before = diagnose(evidence)
    first = before.because[0].signature if before.because else ""
    line = "Aborted (core dumped)"
    text = "\n".join(hit.text for hit in evidence.log.hits)
    hit = scan(f"{line}\n".encode()).hits[0]
    after = replace(evidence.log, hits=(*evidence.log.hits, replace(hit, line=10**6)))
    stands = first in {claim.reason.signature for claim in claims_of(evidence)}
    if stands and first in rows and rows[first].weight > 35 and line not in text:
        assert diagnose(replace(evidence, log=after)).cause == before.cause
