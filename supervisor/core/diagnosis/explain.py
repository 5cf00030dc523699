"""Explanations of incidents in plain words, for a tired person."""

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.advice import (
    ADVICE,
    ASK_LOG,
    ENDED_ITSELF,
    IN_SLICES,
    SLICES_CURED,
)
from supervisor.core.diagnosis.explain_memory import autopsy_paragraph
from supervisor.core.diagnosis.not_found import missing_advice, missing_file
from supervisor.core.diagnosis.result import (
    ASKED,
    FIGURES,
    OWN_EXIT,
    Diagnosis,
    IncidentKind,
    Reason,
    RemedyKind,
    changed_to,
    remedy_words,
)
from supervisor.core.diagnosis.scoring import KILLED_ELSEWHERE, ONLY_VALIDATION
from supervisor.core.diagnosis.signatures.process_rows import (
    CANCELLED,
    PREEMPTION,
    TIME_LIMIT,
)
from supervisor.core.diagnosis.signatures.script_rows import READ_ONLY
from supervisor.core.memory.oom_analysis import op_in
from supervisor.core.text.plain import plain
from supervisor.core.text.units import (
    counted,
    format_duration,
    format_size,
    local_time,
    shortened,
)
from supervisor.wire.reasons import KillReason, RefusalReason

HEADLINES: Mapping[Cause, str] = {
    Cause.NONE: "it ended without a failure",
    Cause.DEVICE_OOM: "the device ran out of memory",
    Cause.DEVICE_OOM_FRAGMENTATION: (
        "device memory was free, but in no piece large enough (fragmentation)"
    ),
    Cause.HOST_OOM: "the machine ran out of main memory",
    Cause.CUDNN_ALLOC: "cuDNN could not allocate memory",
    Cause.CUDNN_INIT: "cuDNN could not be initialised",
    Cause.CUDNN_EXEC: "a cuDNN kernel failed",
    Cause.CUBLAS: "cuBLAS failed",
    Cause.CUDA_FAULT: "a CUDA kernel faulted",
    Cause.GPU_HARDWARE: "the GPU reported a hardware error",
    Cause.VERSION_MISMATCH: "driver, CUDA, cuDNN and framework do not go together",
    Cause.NCCL: "communication between GPUs failed",
    Cause.NON_FINITE_LOSS: "the loss became NaN or infinite",
    Cause.DATA_ERROR: "data, or a file, could not be read or written",
    Cause.DISK_FULL: "a disk was full",
    Cause.USER_ERROR: "the script raised an error of its own",
    Cause.STALLED: "training was alive but made no progress",
    Cause.UNKILLABLE: "a process could not be ended, not even by SIGKILL",
    Cause.NATIVE_CRASH: "native code crashed",
    Cause.PREEMPTED: "something other than Trainwarden ended the process",
    Cause.UNKNOWN: "it ended for a reason nobody could see",
}


UNSAVED: Mapping[str, str] = {
    IncidentKind.UNSAVED_IN_MEMORY: "a snapshot could not be kept in memory",
    IncidentKind.UNSAVED_ON_DISK: "a snapshot could not be written to disk",
    IncidentKind.DEVICE_MEMORY_HIGH: "device memory is nearly full",
    IncidentKind.HOST_MEMORY_HIGH: "main memory is nearly full",
    IncidentKind.DRIVER_STUCK: "the GPU driver hangs: this machine needs a reboot",
}
"""What happened, where the attempt did not end."""


REFUSED: Mapping[RefusalReason, str] = {
    RefusalReason.VERSIONS: "this version of the framework is not supported",
    RefusalReason.INTERNALS: "Keras is not what it should be inside",
    RefusalReason.MEMORY: "the batch does not fit into memory, and cannot be sliced",
    RefusalReason.INEXACT: "slices would change the result, which the spec forbids",
    RefusalReason.BATCH_CHANGED: "the script was changed: its batch is another one",
    RefusalReason.MODULE_CHANGED: "a module that the script imports was changed",
    RefusalReason.DATA_CHANGED: "the training data are not those of the snapshot",
    RefusalReason.MODEL_CHANGED: "the model is not that of the snapshot",
    RefusalReason.DEVICE_GONE: "the GPU that it was trained on is not seen any more",
    RefusalReason.STATE_CHANGED: "the state is not that of the snapshot",
    RefusalReason.SNAPSHOTS_UNUSABLE: "the snapshots cannot be used",
    RefusalReason.NO_ROOM: "there is no room for snapshots",
    RefusalReason.NOT_ESTIMATED: "what it needs cannot be estimated",
    RefusalReason.NOT_TRIED: "its steps cannot be tried as was asked",
    RefusalReason.OTHER: "it was refused before it trained",
}
"""Why training did not start, where the training side itself said so."""


ON_REQUEST = "it was asked to end, and ended before its state was saved"
"""What happened, where the end was one that we had asked for ..."""
OUT_OF_GRACE = "asked to end, it saved nothing in time, and Trainwarden ended it"
"""... and had to bring about."""
NOT_WRITTEN = "the script could not write a file: its file system is read-only"
HEADLINES_OF: Mapping[str, str] = {
    READ_ONLY: NOT_WRITTEN,
    TIME_LIMIT: "Slurm ended the job at its time limit",
    PREEMPTION: "Slurm preempted the job",
    CANCELLED: "Slurm's job was cancelled (scancel, or an administrator)",
    KILLED_ELSEWHERE: "SIGKILL ended it: most often the kernel sends that, for want of main memory",
    ONLY_VALIDATION: "only the validation loss became NaN or infinite",
    OWN_EXIT: "the script ended itself as failed, by sys.exit or exit",
}
"""What lines that say more than their cause does tell, by signature."""


OWN_CHARACTERS = 200
"""Of what failed said itself: a line of a terminal or two."""
_MODULES = re.compile(r"^(?:[A-Za-z_]\w*\.)+(?=[A-Z]\w*(?::|$))")
"""Before the name of an exception: where a framework keeps it tells nobody anything."""


AVERTED: Mapping[Cause, str] = {
    Cause.DEVICE_OOM: "device memory would soon have run out",
    Cause.DEVICE_OOM_FRAGMENTATION: (
        "device memory would soon have been in pieces too small for a step"
    ),
    Cause.HOST_OOM: "main memory would soon have run out",
}
"""Why a restart was planned."""


WITHOUT = "without a step"
"""As the glossary has it."""
ANEW = "The script ran from its top"


def incident_headline(incident: Mapping[str, Any]) -> str:
    """What happened, in half a sentence."""
    cause, happened = Cause(incident["cause"]), incident.get("happened", "")
    if happened == IncidentKind.PLANNED:
        return f"a planned restart, because {AVERTED[cause]}"
    refused = _refusal(incident)
    if refused is not None:
        return REFUSED[refused]
    return UNSAVED.get(happened) or _special(incident) or HEADLINES[cause]


def diagnosis_headline(diagnosis: Diagnosis, *, happened: str = "") -> str:
    """The same of a diagnosis, before there is an incident."""
    found = [{"signature": r.signature, "code": r.code} for r in diagnosis.because]
    return incident_headline(
        {"cause": diagnosis.cause, "happened": happened, "because": found}
    )


def verdict_sentence(diagnosis: Diagnosis, *, happened: str = "") -> str:
    """The cause in words, then figures, then what showed it: the raw line last."""
    headline = diagnosis_headline(diagnosis, happened=happened)
    figures = [r for r in diagnosis.because if r.signature == FIGURES][:1]
    shown = [*figures, *(r for r in diagnosis.because[:1] if r not in figures)]
    told = f": {' '.join(map(_quoted, shown))}" if shown else ""
    return f"{headline} [{diagnosis.cause}]{told}"


def own_text(
    because: Sequence[Mapping[str, Any]], *, most: int = OWN_CHARACTERS
) -> str:
    """What an incident quotes first, in one line of ``most`` characters: the exception that
    ended the script, where one did; empty: nothing is known."""
    raised = [one for one in because if one.get("signature") == "crash"]
    others = [one for one in because if one.get("signature") != FIGURES]
    for one in (*raised, *others):
        text = str(one["text"]).encode(errors="replace").decode()
        line = " ".join(plain(text).split())
        return shortened(_MODULES.sub("", line), most)
    return ""


def own_text_of(diagnosis: Diagnosis) -> str:
    """The same of a diagnosis, before there is an incident."""
    return own_text(
        [{"text": one.text, "signature": one.signature} for one in diagnosis.because]
    )


def _quoted(reason: Reason) -> str:
    text = shortened(reason.text, 300)
    where = quoted_from(reason.line, reason.source)
    return f"{text} ({where})" if where else text


def quoted_from(line: int | None, source: str | None) -> str:
    """Which line that is, and of which file; empty where it is quoted from none."""
    number = "" if line is None else f"line {line}"
    return f"{source or ('log' if number else '')} {number}".strip()


def _special(incident: Mapping[str, Any]) -> str | None:
    """What its evidence tells more exactly than its cause; None: nothing."""
    decided = next((str(e.get("signature")) for e in incident["because"]), "")
    if decided in HEADLINES_OF:
        return HEADLINES_OF[decided]
    codes = [e.get("code") for e in incident["because"] if e.get("signature") == ASKED]
    if not codes:
        return None
    return OUT_OF_GRACE if codes[0] == KillReason.GRACE_OVER else ON_REQUEST


def _refusal(incident: Mapping[str, Any]) -> RefusalReason | None:
    """None: it was not refused. Of a version before, which told no reason: ``OTHER``."""
    codes = (
        e.get("code") for e in incident["because"] if e.get("signature") == "refused"
    )
    return next((RefusalReason.read(code) for code in codes), None)


def summarise_incident(incident: Mapping[str, Any]) -> str:
    """One line."""
    headline = incident_headline(incident)
    remedy = incident["remedy"]
    step = _at_step(incident)
    return (
        f"#{incident['id']} {local_time(incident['at'])} {incident['job']} attempt "
        f"{incident['attempt']}{step}: {headline} [{incident['cause']}] "
        f"→ {remedy_words(remedy['kind'])}{_lost(incident)}{_seen(incident)}"
    )


def _seen(incident: Mapping[str, Any]) -> str:
    if incident.get("acknowledged_at") is None:
        return ""
    by = incident.get("acknowledged_by")
    return ", seen" if by is None else f", seen by {by}"


def explain_incident(incident: Mapping[str, Any]) -> str:
    """A few short paragraphs: what happened, how one knows, what was done."""
    advice = _advice(incident)
    path = missing_file(
        str(incident["because"][0]["text"]) if incident["because"] else ""
    )
    first = path is not None and advice == missing_advice(path)
    paragraphs = [
        _what(incident, incident_headline(incident)),
        advice if first else "",
        *_autopsy(incident),
        _evidence(incident["because"]),
        _stacks(incident),
        _remedy(incident),
        _outcome(incident),
        _proof(incident),
        " ".join(f"Note: {text}." for text in incident.get("deviations") or ()),
        "" if first else advice,
    ]
    return "\n\n".join(
        "\n".join(_wrap(line) for line in text.splitlines())
        for text in paragraphs
        if text
    )


def asks_for_log(incident: Mapping[str, Any]) -> bool:
    """Whether its advice is to look at the log of its attempt."""
    cause, advice = Cause(incident["cause"]), incident.get("advice") or ""
    asked = advice in {ADVICE[cause], ENDED_ITSELF}
    return cause in ASK_LOG and asked and _advice(incident) == advice


def _what(incident: Mapping[str, Any], headline: str) -> str:
    who = f"Attempt {incident['attempt']} of {incident['job']}"
    if incident.get("happened", "") in UNSAVED:
        return f"{who} trained on{_at_step(incident)}, but {headline}."
    if incident.get("happened", "") == IncidentKind.RECOVERED:
        return f"{who} went on in its process{_at_step(incident)}, where {headline}."
    if incident.get("happened", "") == IncidentKind.PLANNED:
        averted = AVERTED[Cause(incident["cause"])]
        at = _at_step(incident)
        return f"{who} was ended on purpose{at}, its state saved: {averted}."
    memory = _memory(incident.get("memory"))
    return f"{who} ended{_at_step(incident)}: {headline}.{memory}"


def _autopsy(incident: Mapping[str, Any]) -> list[str]:
    """Of a shortage of memory; of any failure the op that its evidence names."""
    autopsy, memory = incident.get("autopsy"), incident.get("memory")
    op = op_in("\n".join(str(one["text"]) for one in incident["because"]))
    if autopsy is None:
        return [] if op is None else [f"It failed in the op {op}."]
    asked_by = autopsy.get("asked_by") or op
    return [autopsy_paragraph({**autopsy, "asked_by": asked_by}, memory)]


def _advice(incident: Mapping[str, Any]) -> str:
    """None where the refusal says itself what to do, or where the run was given up and
    a version before advised what had been tried: both would contradict. So would the advice
    to use slices once they were what helped."""
    advice = incident.get("advice") or ""
    if _cured_by_slices(incident, advice):
        return SLICES_CURED
    stopped = incident["remedy"]["kind"] == RemedyKind.STOP
    tried = stopped and advice == ADVICE[Cause.DEVICE_OOM]
    return "" if tried or _refusal(incident) is not None else advice


def _cured_by_slices(incident: Mapping[str, Any], advice: str) -> bool:
    """Whether ``advice`` is to use slices, and a new step was done in them."""
    usual = [ADVICE[cause] for cause in IN_SLICES if cause == incident["cause"]]
    sliced = incident["remedy"]["kind"] == RemedyKind.MICROBATCH
    return sliced and advice in usual and incident["downtime_seconds"] is not None


def _wrap(line: str) -> str:
    indent = "  " if line.startswith("  ") else ""
    return textwrap.fill(
        line,
        width=88,
        subsequent_indent=indent * 2,
        break_long_words=False,  # a path, a name: to be copied
        break_on_hyphens=False,
    )


def _at_step(incident: Mapping[str, Any]) -> str:
    step = incident["failed_step"]
    return "" if step is None else f" after step {step}"


def _lost(incident: Mapping[str, Any]) -> str:
    lost, restored = incident["lost_steps"], incident["restored_step"]
    if lost is None:
        return ""
    resumed = f", resumed at step {restored}" if restored else ""
    if restored == 0:
        resumed = ", begun anew"
    return f"{resumed}, {counted(lost, 'step')} done again"


def _memory(memory: Mapping[str, Any] | None) -> str:
    if not memory:
        return ""
    asked, limit = memory.get("requested_bytes"), memory.get("limit_bytes")
    used = memory.get("in_use_bytes")
    said = "" if asked is None else f" {format_size(asked)} were asked for"
    if limit is None or used is None:
        return f"{said}." if said else ""
    said += " while" if said else " It had"
    verb = "were in use" if asked is not None else "in use"
    said += f" {format_size(used)} of {format_size(limit)} {verb}."
    fragmentation = memory.get("fragmentation")
    if fragmentation is not None:
        said += f" Fragmentation was {fragmentation:.0%}."
    return said


def _evidence(reasons: list[Mapping[str, Any]]) -> str:
    if not reasons:
        return ""
    lines = ["How we know:"]
    for reason in reasons[:6]:
        where = quoted_from(reason.get("line"), reason.get("source"))
        told = shortened(str(reason["text"]), 300)
        lines.append(f"  {where}: {told}" if where else f"  {told}")
    return "\n".join(lines)


def _stacks(incident: Mapping[str, Any]) -> str:
    if not incident.get("stacks"):
        return ""
    return (
        "The stacks of all its threads are kept with the incident: `trainwarden report "
        f"{incident['id']} -o FILE` shows them."
    )


def _remedy(incident: Mapping[str, Any]) -> str:
    remedy = incident["remedy"]
    changes = ", ".join(
        f"{name} {changed_to(remedy, name)}"
        if before is None
        else f"{name} {before} → {changed_to(remedy, name)}"
        for name, (before, _) in remedy["changes"].items()
    )
    changed = f" ({changes})" if changes else ""
    kind = remedy["kind"]
    if kind == RemedyKind.GO_ON:
        return f"What was done: nothing: {remedy['because']}."
    return f"What was done: {remedy_words(kind)}{changed}: {remedy['because']}."


def _proof(incident: Mapping[str, Any]) -> str:
    proof = incident.get("proof")
    return "" if proof is None else f"The resume after it: {proof['sentence']}."


def _outcome(incident: Mapping[str, Any]) -> str:
    down, lost = incident["downtime_seconds"], incident["lost_steps"]
    if incident["restored_step"] is None:
        return "" if down is None else f"{format_duration(down)} passed {WITHOUT}."
    restored = incident["restored_step"]
    said = f"Training went on from step {restored}" if restored else ANEW
    said += "" if lost is None else f"; {counted(lost, 'step')} done again"
    return said + ("." if down is None else f"; {format_duration(down)} {WITHOUT}.")
