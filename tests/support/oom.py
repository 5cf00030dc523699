"""Real failures of allocation, made and looked into as the supervisor does it."""

from dataclasses import asdict
from pathlib import Path

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.diagnose import diagnose
from supervisor.core.diagnosis.examination import examined
from supervisor.core.diagnosis.explain_memory import autopsy_paragraph
from supervisor.core.diagnosis.result import Diagnosis
from supervisor.host.telemetry.attempt_telemetry import Telemetry
from supervisor.host.telemetry.log_follower import LogFollower
from supervisor.runtime.attempts.evidence_collector import gather
from supervisor.wire.files import write_json
from tests.support.attempts import AttemptOutcome, Attempts
from tests.support.lives import exit_record
from tests.support.memory_scripts import ASKED_FOR, FOR_OTHERS, OUT_OF_MEMORY

LIMIT = 128 * 2**20
CAUSES = {
    "capacity": Cause.DEVICE_OOM,
    "oversize": Cause.DEVICE_OOM,
    "fragmentation": Cause.DEVICE_OOM_FRAGMENTATION,
}


def ran_out(directory: Path, kind: str, *, jit: bool) -> AttemptOutcome:
    """An attempt that runs out of memory in this way."""
    return attempted(directory, OUT_OF_MEMORY[kind], jit=jit)


def attempted(
    directory: Path, script_text: str, *, jit: bool = False
) -> AttemptOutcome:
    """An attempt of this script under the limit."""
    attempts = Attempts(directory, {"memory_limit_bytes": LIMIT})
    dumps = directory / "attempt-1" / "dumps"
    environment = {
        "TF_CPU_ALLOCATOR_USE_BFC": "1",
        "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(LIMIT // 2**20),
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "TF_CPP_MIN_LOG_LEVEL": "0",
        "TF_BFC_MEMORY_DUMP": str(dumps / "oom"),
        "JIT": "1" if jit else "0",
    }
    script = attempts.script(script_text)
    process, paths = attempts.start(script, environment=environment)
    dumps.mkdir()
    out, err = process.communicate(timeout=120)
    return AttemptOutcome(process.returncode, out, err, paths)


def diagnosed(outcome: AttemptOutcome) -> Diagnosis:
    """What the supervisor makes of it."""
    paths = outcome.paths
    paths.output.write_text(outcome.err)
    code = outcome.code
    record = exit_record(
        code=None if code < 0 else code, signal=-code if code < 0 else None
    )
    write_json(paths.exit, record.to_json())
    exited = gather(
        paths,
        telemetry=Telemetry(paths),
        log=LogFollower(paths.output),
        cpu_limit=LIMIT,
        snapshots=(None, None),
    )
    return examined(diagnose(exited.evidence), exited.evidence)


def check(outcome: AttemptOutcome, kind: str, *, jit: bool) -> None:
    """The figures agree with the verdict, and the paragraph says who held what."""
    assert outcome.code != 0
    diagnosis = diagnosed(outcome)
    memory, autopsy = diagnosis.memory, diagnosis.autopsy
    assert memory is not None, outcome.err[-3000:]
    assert autopsy is not None
    assert (autopsy.verdict, diagnosis.cause) == (kind, CAUSES[kind]), memory
    asked, free = memory.requested_bytes or 0, memory.free_bytes or 0
    if kind == "fragmentation":
        assert free >= asked > (memory.largest_free_bytes or 0)
    elif kind == "oversize":
        assert asked > LIMIT
    else:
        assert free < asked <= LIMIT
    assert autopsy.jit is jit
    assert autopsy.asked_by
    assert autopsy.largest
    held = {holder.what for holder in autopsy.holders}
    assert "variables: model" in held
    if kind == "fragmentation":
        assert any(what.startswith("kept by Pieces.kept: uint8") for what in held)
    paragraph = autopsy_paragraph(asdict(autopsy), None)
    assert f"The verdict is {kind}" in paragraph
    assert "XLA compiled the step." in paragraph or not jit


def told_as_what_it_is(directory: Path, kind: str) -> None:
    """An attempt that runs out of memory for what ``kind`` says, and the diagnosis."""
    subject, script = ASKED_FOR[kind]
    outcome = attempted(directory, FOR_OTHERS + script)
    assert outcome.code != 0
    diagnosis = diagnosed(outcome)
    assert diagnosis.cause is Cause.DEVICE_OOM, (diagnosis, outcome.err[-3000:])
    assert diagnosis.autopsy is not None
    assert diagnosis.autopsy.subject is subject, outcome.err[-3000:]
