"""The analysis of an OOM: which kind, and who held what.

The verdicts, each asked in this order; the first that holds is told:

1. *host*: main memory, not the device's.
2. *oversize*: one request above the whole limit. Nothing can make room for it.
3. *foreign tenant*: the allocator might still have grown by the request, and somebody
   else holds at least as much of the device.
4. *fragmentation*: enough was free, in no block that large.
5. *leak*: what lay in memory between steps had grown steadily, and by more than what
   was missing.
6. *capacity*: a step needs more than there is.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from supervisor.core.causes import Cause
from supervisor.core.gpu.gpu_readings import GpuProcess
from supervisor.core.memory.bfc_map import Chunk, MemoryMap
from supervisor.core.memory.figures import MemoryFigures, OomVerdict, verdict
from supervisor.core.memory.forecast import Forecast, Resource
from supervisor.core.memory.step_budget import fixed_bytes
from supervisor.wire.messages.memory_answer import BATCH, MemoryAnswer, Variable
from supervisor.wire.records.oom_subject import OomSubject
from supervisor.wire.records.step_needs import StepNeeds

LARGEST = 8
"""Chunks that are named."""
CONTEXT_BYTES = 2**30
"""A CUDA context with its libraries takes less: 300 to 600 MiB on today's GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OomFindings:
    """What is known of memory at the end, beside the diagnosis. None: not known."""

    memory_map: MemoryMap | None = None
    """Every chunk at the failure."""
    answer: MemoryAnswer | None = None
    """What training itself said of who holds what."""
    forecasts: tuple[Forecast, ...] = ()
    between_steps_bytes: int | None = None
    """In use at the last step boundary that was seen."""
    jit: bool | None = None
    """Whether the train step was compiled by XLA."""
    tenants: tuple[GpuProcess, ...] = ()
    """Processes of others on the device."""
    unnamed_bytes: int = 0
    """In use on the device by processes that the driver does not name."""
    text: str = ""
    """What was said of the failure: the exception, and lines of the log."""
    subject: OomSubject | None = None
    needs: StepNeeds | None = None
    """What a step of the ``fit`` that runs needs, as far as it was told."""


NOTHING_FOUND = OomFindings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds a part of what was in use."""

    what: str
    bytes: int
    count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedChunk:
    """A large chunk. ``name``: whose it is; empty where nobody knows."""

    bytes: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How memory had grown at step boundaries, up to the failure."""

    resource: Resource
    bytes_per_second: float
    grown_bytes: float
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OomAnalysis:
    """In the shape that ``incidents --json`` prints. None: not known."""

    verdict: OomVerdict | None
    asked_by: str | None
    """The op that asked for it."""
    shape: tuple[int, ...] | None
    dtype: str | None
    jit: bool | None
    growth: Growth | None
    holders: tuple[Holder, ...]
    largest: tuple[NamedChunk, ...]
    tenants: tuple[Holder, ...]
    subject: OomSubject | None = None
    """What memory was asked for."""
    fixed_bytes: int | None = None
    """What parameters, optimizer and gradients of this ``fit`` take, whatever the batch."""
    fixed_limit_bytes: int | None = None
    """Of how much that is."""


def autopsy_of(
    cause: Cause, memory: MemoryFigures | None, findings: OomFindings
) -> OomAnalysis | None:
    """The autopsy; None for what was no shortage of memory."""
    if cause not in OUT_OF_MEMORY:
        return None
    resource = Resource.HOST if cause is Cause.HOST_OOM else Resource.DEVICE
    growth = growth_of(findings.forecasts, resource)
    shape, dtype = shape_in(findings.text)
    return OomAnalysis(
        verdict=_verdict(cause, memory, findings, growth),
        asked_by=op_in(findings.text),
        shape=shape,
        dtype=dtype,
        jit=findings.jit,
        growth=growth,
        holders=holders_of(findings, memory, host=cause is Cause.HOST_OOM),
        largest=_largest(findings),
        tenants=_tenants(findings),
        subject=findings.subject,
        **_fixed(cause, findings.needs),
    )


def _fixed(cause: Cause, needs: StepNeeds | None) -> dict[str, int | None]:
    if needs is None or cause is Cause.HOST_OOM:
        return {}
    return {
        "fixed_bytes": fixed_bytes(needs),
        "fixed_limit_bytes": needs.limit_bytes,
    }


def _tenants(findings: OomFindings) -> tuple[Holder, ...]:
    found = [
        Holder(what=f"process {one.pid} ({one.name})", bytes=one.bytes or 0)
        for one in findings.tenants
    ]
    if findings.unnamed_bytes:
        what = "processes that the driver does not name (of another container, say)"
        found.append(Holder(what=what, bytes=findings.unnamed_bytes))
    return tuple(found)


OUT_OF_MEMORY = frozenset(
    {Cause.DEVICE_OOM, Cause.DEVICE_OOM_FRAGMENTATION, Cause.HOST_OOM}
)


def _verdict(
    cause: Cause,
    memory: MemoryFigures | None,
    findings: OomFindings,
    growth: Growth | None,
) -> OomVerdict | None:
    if cause is Cause.HOST_OOM:
        return OomVerdict.HOST
    kind = None if memory is None else verdict(memory)
    if memory is None or kind is None:
        return _without_figures(cause, growth)
    if kind is not OomVerdict.OVERSIZE and _taken_by_others(memory, findings):
        return OomVerdict.FOREIGN_TENANT
    if kind is OomVerdict.CAPACITY and growth is not None:
        return OomVerdict.LEAK if growth.grown_bytes >= _missing(memory) else kind
    return kind


def _without_figures(cause: Cause, growth: Growth | None) -> OomVerdict | None:
    """What the trend alone tells, of a restart that was planned before a failure."""
    if cause is Cause.DEVICE_OOM_FRAGMENTATION:
        return OomVerdict.FRAGMENTATION
    return None if growth is None else OomVerdict.LEAK


def _taken_by_others(memory: MemoryFigures, findings: OomFindings) -> bool:
    """The pool might have grown by the request, had others left room for it."""
    asked = memory.requested_bytes or 0
    held = sum(one.bytes for one in _tenants(findings))
    return held >= asked > 0 and room_but_for_others(memory) >= asked


def room_but_for_others(memory: MemoryFigures) -> int:
    """What the pool might take, were nobody else on the device: up to its limit. PyTorch
    tells what the device has left, which is what others let it have, and the CUDA context
    of its own process, which is beside the pool."""
    limit, pool, growth = memory.limit_bytes, memory.pool_bytes, memory.growth_bytes
    below = 0 if limit is None or pool is None else limit - pool
    return below if growth is None else max(below - CONTEXT_BYTES, growth)


def _missing(memory: MemoryFigures) -> int:
    """What was asked for beyond all that was left."""
    left = (memory.free_bytes or 0) + (memory.growth_bytes or 0)
    return (memory.requested_bytes or 0) - left


def growth_of(forecasts: Sequence[Forecast], resource: Resource) -> Growth | None:
    """The growth of ``resource``; None: it did not grow, as far as one can tell."""
    for forecast in forecasts:
        if forecast.resource is resource and forecast.seconds is not None:
            return Growth(
                resource=resource,
                bytes_per_second=forecast.growth,
                grown_bytes=forecast.grown,
                confidence=forecast.confidence,
            )
    return None


_OPS = re.compile(
    r"requested by op ([\w/.:-]+)"
    r"|Detected at node '?([^\s']+)'? defined at"
    r"|\{\{node ([^}]+)\}\}"
    r"|\[\[node ([^\s\]]+)"
    r"|Node: '([^']+)'"
    r"|\[Op:(\w+)\]"
    r"|\{\{function_node __wrapped__([A-Za-z0-9]+)_"
)
"""How TensorFlow names the op of an error: the allocator's word, a node of a graph, an
eager op, what the runtime wraps around one."""
_COVERS = ("__inference_", "__wrapped__", "__forward_", "__backward_")
"""Names of whole functions: what failed is within."""
_CALL = "StatefulPartitionedCall"
"""... and of the op that calls one: told where nothing else is."""
_SHAPE = re.compile(
    r"OOM when allocating tensor (?:with|of) shape\s?\[(?P<shape>[\d,]*)\]"
    r"(?: and type (?P<dtype>\w+))?"
)


def op_in(text: str) -> str | None:
    """The op that ``text`` names first; None: it names none."""
    names = (next(filter(None, match.groups())) for match in _OPS.finditer(text))
    found = [one.strip()[:200] for one in names if not one.startswith(_COVERS)]
    named = (op for op in found if op != _CALL)
    return next(named, found[0] if found else None)


def shape_in(text: str) -> tuple[tuple[int, ...] | None, str | None]:
    """Shape and type of the tensor that was asked for, where they are told."""
    match = _SHAPE.search(text)
    if match is None:
        return None, None
    extents = tuple(int(extent) for extent in filter(None, match["shape"].split(",")))
    return extents, match["dtype"]


_OTHERS = "between steps, by others (input pipeline, caches)"
_UNTOLD = "between steps (variables, and whatever is kept)"
"""... where training did not say who holds what."""
_FAILED = "the step that failed"
_WORK: Mapping[OomSubject, str] = {
    OomSubject.STEP: _FAILED,
    OomSubject.OWN_STEP: _FAILED,
    OomSubject.EVALUATION: "the step of the validation that failed",
    OomSubject.BATCH: "slices of a batch that were tried",
}
"""What was being done; of all else it is not known that it is a step's."""
_SINCE = "taken since the last step ended"
_UNNAMED = "all that nobody names"
_ITSELF = " (activations, gradients, workspace)"


def holders_of(
    findings: OomFindings, memory: MemoryFigures | None, *, host: bool = False
) -> tuple[Holder, ...]:
    """Who holds what was in use, the largest first; what nobody claims is told too, so
    that they add up to it."""
    answer = findings.answer
    variables = () if answer is None or host else answer.variables
    kind = "array" if host else "tensor"
    found = _variables(variables)
    kept = () if answer is None else answer.kept
    found += [
        Holder(
            what=f"kept by {one.where}: {one.example}", bytes=one.bytes, count=one.count
        )
        for one in kept
        if one.kind == kind
    ]
    if not host:
        named = sum(one.bytes for one in found)
        used = None if memory is None else memory.in_use_bytes
        found += [one for one in _unnamed(findings, named, used) if one.bytes > 0]
    return tuple(sorted(found, key=lambda one: -one.bytes))


def _unnamed(findings: OomFindings, named: int, used: int | None) -> Iterator[Holder]:
    """What is in use beyond what is ``named``: from between steps, and by the step."""
    between = findings.between_steps_bytes
    work = None if findings.subject is None else _WORK.get(findings.subject)
    if between is None:  # no step had ended: what lay there before it nobody has seen
        if used is not None:
            yield Holder(what=_together(work, findings.answer), bytes=used - named)
        return
    there = between if used is None else min(between, used)
    what = _UNTOLD if findings.answer is None else _OTHERS
    yield Holder(what=what, bytes=there - named)
    if used is not None:
        what = _SINCE if work is None else work + _ITSELF
        yield Holder(what=what, bytes=used - max(there, named))


def _together(work: str | None, answer: MemoryAnswer | None) -> str:
    """What cannot be told apart."""
    rest = _UNNAMED if answer is not None else "variables, and whatever is kept"
    return f"{work}{_ITSELF}, and {rest}" if work else rest


def _variables(variables: Sequence[Variable]) -> list[Holder]:
    groups: dict[str, list[Variable]] = {}
    for one in variables:
        groups.setdefault(one.name.partition(":")[0], []).append(one)
    return [
        Holder(
            what=f"variables: {group}",
            bytes=sum(one.bytes for one in members),
            count=len(members),
        )
        for group, members in groups.items()
        if any(one.bytes for one in members)
    ]


def _largest(findings: OomFindings) -> tuple[NamedChunk, ...]:
    if findings.memory_map is None:
        return ()
    known = names_of(findings.answer, findings.memory_map.chunks)
    used = [chunk for chunk in findings.memory_map.chunks if chunk.in_use]
    used.sort(key=lambda chunk: -chunk.size)
    return tuple(
        NamedChunk(bytes=chunk.size, name=known.get(chunk.address, ""))
        for chunk in used[:LARGEST]
    )


def labels(answer: MemoryAnswer | None) -> dict[int, str]:
    """Names of variables by the address of their value."""
    variables = () if answer is None else answer.variables
    return {one.address: one.name for one in variables if one.address is not None}


def names_of(answer: MemoryAnswer | None, chunks: Iterable[Chunk]) -> dict[int, str]:
    """The names of ``chunks`` in use, by address: of variables, of tensors that the script
    or its data keep, of ops; last, of what is just as large as a batch."""
    kept = () if answer is None else answer.kept
    held = {at: f"kept by {one.where}" for one in kept for at in one.addresses}
    batches = {one.bytes: one.example for one in kept if one.kind == BATCH}
    known = held | labels(answer)
    found: dict[int, str] = {}
    for chunk in chunks:
        name = known.get(chunk.address, chunk.op_name)
        if not name and chunk.requested_size in batches:
            name = f"by its size a batch of the data: {batches[chunk.requested_size]}"
        if name and chunk.in_use:
            found[chunk.address] = name
    return found
