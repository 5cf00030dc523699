"""A diagnosis with its autopsy, where memory was what ran out."""

from dataclasses import replace

from supervisor.core.autopsy import autopsy_of
from supervisor.core.evidence import Evidence
from supervisor.core.placement import tenants
from supervisor.core.verdicts import Diagnosis


def examined(diagnosis: Diagnosis, evidence: Evidence) -> Diagnosis:
    """``diagnosis``, and what ``evidence`` tells of who held what."""
    others = tenants(
        evidence.gpus,
        gpus={gpu.uuid for gpu in evidence.gpus},
        ours=evidence.own_pids,
    )
    findings = replace(evidence.memory, tenants=others, text=_text(evidence))
    autopsy = autopsy_of(diagnosis.cause, diagnosis.memory, findings)
    return replace(diagnosis, autopsy=autopsy)


def _text(evidence: Evidence) -> str:
    """What was said of the failure: the exception first, then lines of the log."""
    crash = "" if evidence.crash is None else evidence.crash.message
    return "\n".join([crash, *(hit.text for hit in evidence.log.hits)])
