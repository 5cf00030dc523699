"""An incident to look at: verdict, memory, stacks, log, what was done, and for upstream."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile
from typing import Any

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.explain import explain_incident, incident_headline
from supervisor.core.diagnosis.result import changed_to, remedy_words
from supervisor.core.diagnosis.stack_traces import current_thread
from supervisor.core.text.units import format_size
from supervisor.web.allocator_drawing import blocks_figure, map_figure
from supervisor.web.attempt_evidence import AttemptEvidence
from supervisor.web.line_chart import Bound, Line
from supervisor.web.markup import Element, Node, tag
from supervisor.web.run_charts import column_points, memory_chart
from supervisor.web.run_view import (
    RunDossier,
    attempts_part,
    outcome_text,
    tiles,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentDossier:
    """What is known of an incident."""

    incident: dict[str, Any]
    """``IncidentRow``."""
    run: RunDossier | None = None
    """Its run; None: it is not there any more, or another of that name."""
    evidence: AttemptEvidence = field(default_factory=AttemptEvidence)


def incident_title(incident: Mapping[str, Any]) -> str:
    """What it is about."""
    return (
        f"Incident {incident['id']} of {incident['job']}: {incident_headline(incident)}"
    )


def verdict_part(dossier: IncidentDossier) -> list[Node]:
    """What happened and how one knows, in words."""
    text = explain_incident(dossier.incident)
    return [_paragraph(block) for block in text.split("\n\n")]


def _paragraph(block: str) -> Element:
    lines = block.splitlines()
    if not any(line.startswith("  ") for line in lines):
        return tag("p", " ".join(lines))
    head = " ".join(line for line in lines if not line.startswith("  "))
    rest = list(dropwhile(lambda line: not line.startswith("  "), lines))
    items: list[str] = []
    for line in rest:
        if line.startswith("    ") and items:
            items[-1] += " " + line.strip()
        else:
            items.append(line.strip())
    return tag(
        "div",
        tag("p", head),
        tag("ul", [tag("li", one) for one in items], class_="log"),
    )


def memory_of_failure(dossier: IncidentDossier) -> dict[str, Any]:
    """``MemoryFigures``; empty where they are not known."""
    found: dict[str, Any] | None = dossier.incident.get("memory")
    return found or {}


def memory_part(dossier: IncidentDossier) -> list[Node]:
    """The figures, the map, the request beside the free blocks, and the time before."""
    memory = memory_of_failure(dossier)
    side_by_side = [*blocks_part(dossier), before_crash(dossier)]
    known = [part for part in side_by_side if part is not None]
    parts: list[Node] = [_figures(memory), *map_part(dossier)]
    parts.append(tag("div", known, class_="charts") if known else None)
    return [part for part in parts if part is not None]


MEMORY_NAMES = {
    "requested_bytes": "asked for",
    "largest_free_bytes": "largest free block",
    "free_bytes": "free in the pool",
    "in_use_bytes": "in use",
    "pool_bytes": "pool",
    "limit_bytes": "limit",
    "peak_bytes": "step peak",
}


def _figures(memory: Mapping[str, Any]) -> Element | None:
    known = {
        name: format_size(memory[key])
        for key, name in MEMORY_NAMES.items()
        if memory.get(key) is not None
    }
    if memory.get("fragmentation") is not None:
        known["fragmentation"] = f"{memory['fragmentation']:.0%}"
    return tiles(known) if known else None


def map_part(dossier: IncidentDossier) -> list[Node]:
    """From the dump that TensorFlow wrote; nothing where there is none."""
    found = dossier.evidence.memory_map
    if found is None or not dossier.incident.get("memory"):
        return []
    return [map_figure(found.chunks, dossier.evidence.labels)]


def blocks_part(dossier: IncidentDossier) -> list[Node]:
    """What was asked for, beside what was free in that map."""
    found, memory = dossier.evidence.memory_map, dossier.incident.get("memory")
    if found is None or not memory:
        return []
    free = [chunk.size for chunk in found.chunks if not chunk.in_use]
    return [
        blocks_figure(
            free,
            requested_bytes=memory.get("requested_bytes"),
            growth_bytes=memory.get("growth_bytes"),
        )
    ]


DEVICE = {
    "device_bytes": ("in use", "in_use_bytes"),
    "pool_bytes": ("pool", "pool_bytes"),
    "largest_free_bytes": ("largest free block", "largest_free_bytes"),
}
"""Columns of a series: what they are called, and the same in the figures of a failure."""
HOST = {"host_bytes": ("main memory", "")}


def before_crash(dossier: IncidentDossier) -> Element | None:
    """Memory of that attempt up to its end, which is the last point where the failure
    itself is known: between steps nobody looks, and a step may take much."""
    run, number = dossier.run, dossier.incident["attempt"]
    known = [] if run is None else run.attempts
    attempt = next((one for one in known if one["attempt"] == number), None)
    if attempt is None:
        return None
    memory = memory_of_failure(dossier)
    lasted, limit = attempt["seconds"] or 0.0, memory.get("limit_bytes")
    columns = HOST if limit is None else DEVICE
    lines: list[Line] = []
    for tone, (name, (label, at_end)) in enumerate(columns.items(), 1):
        points = column_points(attempt["series"], "time", name)
        if memory.get(at_end) is not None:
            points = (*points, (lasted, float(memory[at_end])))
        lines.append(Line(label=label, tone=tone, segments=(points,)))
    bounds = () if limit is None else (
        Bound(y=float(limit), label=f"limit {format_size(limit)}"),
    )  # fmt: skip
    chart = memory_chart(
        "before",
        f"Memory of attempt {number}, up to its end",
        lines=tuple(lines),
        longest=lasted,
        bounds=bounds,
    )
    return chart.draw() if chart.drawn else None


def log_part(dossier: IncidentDossier) -> list[Node]:
    """What was printed at the end, and the traceback."""
    parts: list[Node] = []
    if dossier.evidence.log_tail:
        parts += [
            tag("h3", "The end of its log"),
            _printed("The end of its log", dossier.evidence.log_tail),
        ]
    if dossier.evidence.traceback:
        parts += [
            tag("h3", "Traceback"),
            _printed("Traceback", dossier.evidence.traceback),
        ]
    return parts or [tag("p", "Nothing that it printed is kept, or yours to read.")]


def stacks_part(dossier: IncidentDossier) -> list[Node]:
    """Of all threads, where it was killed for a hang or crashed in native code."""
    stacks = dossier.incident.get("stacks") or ""
    return [_printed("Stacks", stacks)] if stacks else []


def _printed(name: str, text: str) -> Element:
    return tag("pre", text, tabindex=0, role="region", aria_label=name)


def decision_part(dossier: IncidentDossier) -> list[Node]:
    """What was done, and what came of it."""
    incident = dossier.incident
    remedy = incident["remedy"]
    changes = [
        tag(
            "tr",
            tag("th", name.replace("_", " "), scope="row"),
            tag("td", str(before)),
            tag("td", changed_to(remedy, name)),
        )
        for name, (before, _) in remedy["changes"].items()
    ]
    heads = [tag("th", text, scope="col") for text in ("what", "before", "after")]
    because = f": {remedy['because']}" if remedy["because"] else ""
    said = outcome_text(incident) or "Nothing came of it yet."
    proof = incident.get("proof")
    parts: list[Node] = [
        tag("p", tag("strong", remedy_words(remedy["kind"])), f"{because}."),
        tag("table", tag("thead", tag("tr", heads)), tag("tbody", changes))
        if changes
        else None,
        tag("p", said),
        None
        if proof is None
        else tag("p", f"The resume after it: {proof['sentence']}."),
    ]
    if dossier.run is not None:
        parts += [tag("h3", "Attempts of the run"), attempts_part(dossier.run)]
    return parts


UPSTREAM: Mapping[Cause, str] = {
    Cause.DEVICE_OOM: "No bug by itself: a step needs more than there is.",
    Cause.DEVICE_OOM_FRAGMENTATION: (
        "Worth telling TensorFlow where a fresh process does not help: the allocator's dump"
        " belongs to it."
    ),
    Cause.HOST_OOM: "No bug by itself; a leak belongs to the library that holds the memory.",
    Cause.CUDNN_EXEC: "Belongs to TensorFlow, and to NVIDIA with a kernel that repeats it.",
    Cause.CUDA_FAULT: "Belongs to TensorFlow, and to NVIDIA where other GPUs do the same.",
    Cause.GPU_HARDWARE: "Belongs to whoever looks after the machine, with the Xid.",
    Cause.NATIVE_CRASH: "Belongs to the library in which it crashed.",
    Cause.UNKILLABLE: "Belongs to NVIDIA (the driver), or to the file system it waits for.",
    Cause.NCCL: "Belongs to NVIDIA's NCCL, with NCCL_DEBUG=INFO.",
}
NOWHERE = (
    "Nothing of it points upstream: it belongs to the script, its data or the machine."
)
TRACE_LINES = 40


def upstream_part(dossier: IncidentDossier) -> list[Node]:
    """A text for an issue tracker."""
    cause = Cause(dossier.incident["cause"])
    return [
        tag("p", UPSTREAM.get(cause, NOWHERE)),
        _printed("For an issue tracker", upstream_text(dossier)),
    ]


def upstream_text(dossier: IncidentDossier) -> str:
    """What a maintainer wants to know, and no more."""
    incident, evidence = dossier.incident, dossier.evidence
    versions = ", ".join(
        f"{name} {version}" for name, version in evidence.versions.items()
    )
    memory = memory_of_failure(dossier)
    figures = [f"  {name}: {memory[key]:,} bytes" for key, name in MEMORY_NAMES.items()
               if memory.get(key) is not None]  # fmt: skip
    reasons = [f"  {reason['text']}" for reason in incident["because"][:4]]
    autopsy: dict[str, Any] = incident.get("autopsy") or {}
    step = incident["failed_step"]
    sections: Sequence[tuple[str, list[str]]] = (
        ("Title", [f"  {incident_headline(incident)} ({incident['cause']})"]),
        ("Versions", [f"  {versions}"] if versions else []),
        ("When", ["  before the first step" if not step else f"  after step {step}"]),
        ("Memory at the failure", figures),
        (
            "Asked for by",
            [f"  {autopsy['asked_by']}"] if autopsy.get("asked_by") else [],
        ),
        ("Evidence", reasons),
        (
            "Stack",
            [
                f"  {line}"
                for line in current_thread(incident.get("stacks") or "").splitlines()
            ][:TRACE_LINES],
        ),
        (
            "Traceback",
            [f"  {line}" for line in evidence.traceback.splitlines()[-TRACE_LINES:]],
        ),
    )
    return "\n".join(
        "\n".join([f"{name}:", *lines]) for name, lines in sections if lines
    )
