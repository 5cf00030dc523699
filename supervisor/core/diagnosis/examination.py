"""A diagnosis with what its evidence adds: the OOM analysis, and advice for the case."""

from collections.abc import Sequence
from dataclasses import replace

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.advice import (
    ADVICE,
    ADVICE_FOR,
    JAX_FRACTION,
    OWN_ERROR_AT,
    RUN_AS_A_MODULE,
    WHOLE_BATCH,
)
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.memory_shortage import (
    FOR_WANT_OF_MEMORY,
    no_room_to_begin,
)
from supervisor.core.diagnosis.not_found import missing_module, module_advice
from supervisor.core.diagnosis.result import Diagnosis, Reason
from supervisor.core.diagnosis.stack_traces import place_in_script
from supervisor.core.gpu.assignment import named, tenants, unnamed_bytes
from supervisor.core.gpu.gpu_readings import GpuProcess
from supervisor.core.memory.figures import OomVerdict
from supervisor.core.memory.oom_analysis import CONTEXT_BYTES, autopsy_of
from supervisor.core.memory.oom_report import processes_named
from supervisor.core.text.plain import plain
from supervisor.core.text.units import format_size, shortened
from supervisor.wire.reasons import RefusalReason
from supervisor.wire.records.end_records import CrashReport

JAX = ("jax.", "jaxlib.")
"""Its exceptions (jax.errors.JaxRuntimeError; before 0.5 jaxlib…XlaRuntimeError)."""
LONGEST = 300
"""Characters of a place in a script that are told."""
RELATIVE_IMPORT = "attempted relative import with no known parent package"
"""Python's own words."""


def examined(
    diagnosis: Diagnosis,
    evidence: Evidence,
    *,
    wanted: Sequence[int | str] | None = None,
) -> Diagnosis:
    """``diagnosis``, and what ``evidence`` tells of who held what.

    ``wanted``: the GPUs of the run, as its spec names them; None: all of the box.
    """
    gpus = frozenset(() if evidence.limited else named(wanted, evidence.gpus))
    others = tenants(evidence.gpus, gpus=gpus, ours=evidence.own_pids)
    text = _text(evidence)
    others = _with_those_named(others, text, evidence)
    memory = diagnosis.memory
    pool = 0 if memory is None else memory.pool_bytes or memory.in_use_bytes or 0
    unnamed = [
        unnamed_bytes(one, ours=evidence.own_pids, held=pool + CONTEXT_BYTES)
        for one in evidence.gpus
        if one.uuid in gpus
    ]
    findings = replace(
        evidence.memory,
        tenants=others,
        unnamed_bytes=max(unnamed, default=0),
        text=text,
        subject=evidence.subject,
    )
    autopsy = autopsy_of(diagnosis.cause, diagnosis.memory, findings)
    advice = diagnosis.advice
    general = advice == ADVICE[diagnosis.cause]
    if (
        general
        and autopsy is not None
        and autopsy.verdict is not OomVerdict.FOREIGN_TENANT
    ):
        advice = ADVICE_FOR.get(autopsy.subject, advice)
    if advice == ADVICE[Cause.DEVICE_OOM] and unsliceable(evidence):
        advice = _whole_batch(evidence)
    crash = evidence.crash
    if crash is not None and diagnosis.cause is Cause.USER_ERROR:
        advice = _of_own_error(crash, advice)
    if crash is not None and RELATIVE_IMPORT in crash.message:
        advice = RUN_AS_A_MODULE
    whole = autopsy is None or no_room_to_begin(diagnosis, evidence)
    told = _others_told(diagnosis, others) if whole else ()
    because = (*diagnosis.because, *told)
    return replace(diagnosis, because=because, autopsy=autopsy, advice=advice)


def _of_own_error(crash: CrashReport, advice: str) -> str:
    """``advice`` with the place in the script, or that for a module which its Python lacks."""
    if not crash.exception.endswith("ModuleNotFoundError"):
        place = place_in_script(crash.traceback)
        if place is None or advice != ADVICE[Cause.USER_ERROR]:
            return advice
        return OWN_ERROR_AT.format(shortened(plain(place), LONGEST))
    return module_advice(missing_module(f"ModuleNotFoundError: {crash.message}"))


def unsliceable(evidence: Evidence) -> bool:
    """Whether its batches are known not to be sliced: by the backend, or because the
    training side said so where it was to do it."""
    refused = evidence.refused
    said = refused is not None and refused.reason is RefusalReason.MEMORY
    return said or evidence.sliceable is False


def _whole_batch(evidence: Evidence) -> str:
    """What helps then; of JAX also how much of the device it may take."""
    crash = evidence.crash
    jax = crash is not None and crash.exception.startswith(JAX)
    return f"{WHOLE_BATCH} {JAX_FRACTION}" if jax else WHOLE_BATCH


def _with_those_named(
    known: tuple[GpuProcess, ...], text: str, evidence: Evidence
) -> tuple[GpuProcess, ...]:
    """``known``, and the other processes that the failure itself names."""
    ours = evidence.own_pids.union(one.pid for one in known)
    named_there = processes_named(text)
    return (*known, *(one for one in named_there if one.pid not in ours))


def _others_told(
    diagnosis: Diagnosis, others: Sequence[GpuProcess]
) -> tuple[Reason, ...]:
    """Who else holds memory of the device, where that is what a library lacked."""
    if diagnosis.cause not in FOR_WANT_OF_MEMORY or not others:
        return ()
    listed = ", ".join(
        f"process {one.pid} ({one.name}) {format_size(one.bytes or 0)}"
        for one in others[:3]
    )
    return (Reason(f"Others hold memory on the device: {listed}.", "tenants"),)


def _text(evidence: Evidence) -> str:
    """What was said of the failure: the exception first, then lines of the log. Where the
    exception is only what came of an allocation that failed, it is asked last."""
    crash, log = evidence.crash, [hit.text for hit in evidence.log.hits]
    if crash is None:
        return "\n".join(log)
    if crash.allocation is None:
        return "\n".join([crash.message, *log])
    return "\n".join([crash.allocation, *log, crash.message])
