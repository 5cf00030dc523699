"""The shapes of requests and answers as JSON Schema, drawn from the values themselves."""

from typing import Any, cast

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from supervisor.core.gpu.gpu_view import GpusShown
from supervisor.core.jobs.accounting.run_summary import RunSummary
from supervisor.core.jobs.job_status import JobStatus
from supervisor.host.ledger.job_book import AuditRow, WantedState
from supervisor.host.ledger.ledger import IncidentRow, QuarantineRow
from supervisor.runtime.recording.job_locator import JobFiles
from supervisor.runtime.recording.run_history import RunRecord

Schema = dict[str, Any]

PLACE = "#/components/schemas/"
TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer"}
BINARY: Schema = {}
"""Bytes: no JSON."""


def table(**properties: Schema) -> Schema:
    """An object with exactly these keys."""
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(properties),
        "additionalProperties": False,
    }


def array(of: Schema) -> Schema:
    """A list."""
    return {"type": "array", "items": of}


def or_null(schema: Schema) -> Schema:
    """Null: not known, or there is none."""
    return {"anyOf": [schema, {"type": "null"}]}


NOTHING = table()
ERROR: Schema = {
    "type": "object",
    "properties": {"error": TEXT, "problems": array(TEXT)},
    "required": ["error"],
    "additionalProperties": False,
}


def of(kind: type, mode: JsonSchemaMode = "serialization") -> tuple[Schema, Schema]:
    """The schema of a type, and those it refers to by name, to be put at ``PLACE``."""
    made = TypeAdapter(kind).json_schema(mode=mode, ref_template=PLACE + "{model}")
    # Defaults stand there as we keep them (seconds, bytes), not as they are written.
    plain = _without(made, ("default", "title"))
    named: Schema = plain.pop("$defs", {})
    return plain, named


def _without(value: object, keys: tuple[str, ...]) -> Any:
    """``value`` without annotations of these names; a property may be called so."""
    if isinstance(value, list):
        return [_without(item, keys) for item in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    known = cast("dict[str, Any]", value)
    return {
        key: {name: _without(one, keys) for name, one in inner.items()}
        if key in {"properties", "$defs"}
        else _without(inner, keys)
        for key, inner in known.items()
        if key not in keys
    }


def job() -> tuple[Schema, Schema]:
    """One job: what ``status_json`` shows, and what the daemon adds."""
    shown, named = of(JobStatus)
    properties = shown["properties"]
    sliced = {
        "slices": properties.pop("slices"),
        "size": properties.pop("slice_size"),
    }
    added = {
        "microbatch": table(**sliced),
        "owner": TEXT,
        "priority": COUNT,
        "gpus": array(TEXT),
        "wanted": {"enum": [wanted.value for wanted in WantedState]},
        "source": or_null(TEXT),
    }
    return table(**properties, **added), named


def scheduler() -> Schema:
    """The box, its GPUs and all jobs."""
    gpu = table(gpu=TEXT, in_service={"type": "boolean"}, job=or_null(TEXT))
    return table(
        version=TEXT,
        launcher=TEXT,
        paused_by=or_null(TEXT),
        gpus=array(gpu),
        problems=array(TEXT),
        jobs=array(named("Job")),
    )


def named(name: str) -> Schema:
    """The one at ``PLACE`` of that name."""
    return {"$ref": PLACE + name}


def components() -> Schema:
    """All that is referred to by name."""
    kinds = {
        "Incident": IncidentRow,
        "Audit": AuditRow,
        "Gpus": GpusShown,
        "Files": JobFiles,
        "Quarantined": QuarantineRow,
        "Run": RunSummary,
        "Record": RunRecord,
    }
    one, found = job()
    for name, kind in kinds.items():
        shown, its = of(kind)
        found |= {**its, name: shown}
    return {**found, "Job": one, "Box": scheduler(), "Error": ERROR}
