"""The control interface, version 1: a table of routes, and its OpenAPI document."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from typing import Any, cast

import supervisor
from supervisor.core.jobs.authorization import Permission
from supervisor.core.jobs.job_status import status_json
from supervisor.core.jobs.spec import SpecError, build_spec, validated
from supervisor.daemon.api import json_schema
from supervisor.daemon.api.bodies import (
    BeginRequest,
    EndRequest,
    LogsQuery,
    Narrowed,
    Service,
    Submission,
)
from supervisor.daemon.api.json_schema import Schema
from supervisor.daemon.api.openapi import Answer, Asked, Route, document
from supervisor.daemon.api_service import ApiService, StartOptions
from supervisor.daemon.gpu_status import gpus_shown
from supervisor.daemon.job_logs import log_part
from supervisor.daemon.managed_job import (
    ForbiddenError,
    ManagedJob,
    SchedulerError,
    UnknownJobError,
)
from supervisor.host.control.control_server import Request, Response
from supervisor.host.ledger.ledger import LedgerError

ATTEMPT, OFFSET, ENDED = (
    "Trainwarden-Attempt",
    "Trainwarden-Offset",
    "Trainwarden-Ended",
)
"""Headers beside a part of a log: of which attempt, where the next part begins, and
whether nothing will follow."""


def answer(desk: ApiService, request: Request) -> Response:
    """The response to ``request``; never raises for what a caller did."""
    found = [(r, r.match(request.path)) for r in ROUTES]
    here = [(route, names) for route, names in found if names is not None]
    for route, names in here:
        if route.method == request.method:
            return _guarded(desk, request, route, names)
    if not here:
        return _error(404, f"there is no {request.path}; see /v1/openapi.json")
    allowed = ", ".join(sorted(route.method for route, _ in here))
    refused = _error(405, f"{request.method} is not among {allowed}")
    return Response(status=405, body=refused.body, headers={"Allow": allowed})


def _guarded(
    desk: ApiService, request: Request, route: Route, names: Mapping[str, str]
) -> Response:
    try:
        given: object = request.body
        if not isinstance(given, dict):
            return _error(400, "the body is no JSON object")
        asked = Asked(
            request=request,
            names=names,
            body=validated(route.body, cast("dict[str, Any]", given)),
            query=validated(route.query, dict[str, Any](request.query)),
        )
        return route.answer(desk, asked)
    except SpecError as error:
        problems = [str(problem) for problem in error.problems]
        return Response(
            status=400, body={"error": "cannot be used", "problems": problems}
        )
    except (SchedulerError, LedgerError) as error:
        return _error(_STATUS.get(type(error), 409), str(error))


_STATUS: Mapping[type[Exception], int] = {
    ForbiddenError: 403,
    UnknownJobError: 404,
    LedgerError: 503,
}
"""By what went wrong; 409 for the rest: not as things are now."""


def _error(status: int, sentence: str) -> Response:
    return Response(status=status, body={"error": sentence})


def job_json(entry: ManagedJob) -> dict[str, Any]:
    """A job as it is shown: its status, and what the daemon adds."""
    return {
        **status_json(entry.status()),
        "owner": entry.row.owner,
        "priority": entry.spec.priority,
        "gpus": list(entry.life.gpus),
        "wanted": entry.row.wanted.value,
        "source": entry.row.source,
    }


def _status(desk: ApiService, asked: Asked) -> Response:
    desk.look(asked.request.caller)
    box = desk.box
    body = {
        "version": supervisor.__version__,
        "launcher": box.starter.house.about,
        "paused_by": box.paused_by,
        "gpus": [
            {
                "gpu": gpu,
                "in_service": gpu not in box.out_of_service,
                "job": next(
                    (e.name for e in box.entries.values() if gpu in e.life.gpus), None
                ),
            }
            for gpu in box.gpus()
        ],
        "problems": box.problems,
        "jobs": [job_json(entry) for entry in box.entries.values()],
    }
    return Response(body=body)


def _gpus(desk: ApiService, asked: Asked) -> Response:
    desk.look(asked.request.caller)
    return Response(body=asdict(gpus_shown(desk.box)))


def _job(desk: ApiService, asked: Asked) -> Response:
    return Response(
        body=job_json(
            desk.entry(asked.request.caller, asked.names["job"], Permission.LOOK)
        )
    )


def _submit(desk: ApiService, asked: Asked) -> Response:
    choice = StartOptions(
        fresh=asked.body.fresh, accept_changes=asked.body.accept_changes
    )
    tables = asked.body.spec
    entry = desk.submit(
        asked.request.caller,
        tables,
        build_spec(tables),
        owner=asked.body.user,
        choice=choice,
    )
    return Response(status=201, body=job_json(entry))


def _stop(desk: ApiService, asked: Asked) -> Response:
    entry = desk.stop(asked.request.caller, asked.names["job"], drain=asked.body.drain)
    return Response(status=202, body=job_json(entry))


def _start(desk: ApiService, asked: Asked) -> Response:
    choice = StartOptions(
        fresh=asked.body.fresh, accept_changes=asked.body.accept_changes
    )
    entry = desk.start(asked.request.caller, asked.names["job"], choice)
    return Response(status=202, body=job_json(entry))


def _restart(desk: ApiService, asked: Asked) -> Response:
    entry = desk.restart(asked.request.caller, asked.names["job"])
    return Response(status=202, body=job_json(entry))


def _forget(desk: ApiService, asked: Asked) -> Response:
    desk.forget(asked.request.caller, asked.names["job"])
    return Response(body={})


def _logs(desk: ApiService, asked: Asked) -> Response:
    page = asked.query
    entry = desk.entry(asked.request.caller, asked.names["job"], Permission.OWN)
    part = log_part(desk.box.starter, entry, attempt=page.attempt, offset=page.offset)
    headers = {
        ATTEMPT: str(part.attempt),
        OFFSET: str(part.offset),
        ENDED: "true" if part.ended else "false",
    }
    return Response(body=part.content, headers=headers)


def _incidents(desk: ApiService, asked: Asked) -> Response:
    desk.look(asked.request.caller)
    found = desk.ledger.incidents(job=asked.query.job)
    return Response(body=[asdict(incident) for incident in found])


def _acknowledge(desk: ApiService, asked: Asked) -> Response:
    number = asked.names["incident"]
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        message = f"there is no incident {number!r}"
        raise UnknownJobError(message)
    desk.acknowledge(asked.request.caller, int(number))
    return Response(body={})


def _pause(desk: ApiService, asked: Asked) -> Response:
    desk.pause(asked.request.caller, paused=True)
    return Response(body={})


def _resume(desk: ApiService, asked: Asked) -> Response:
    desk.pause(asked.request.caller, paused=False)
    return Response(body={})


def _drain(desk: ApiService, asked: Asked) -> Response:
    drained = desk.drain(asked.request.caller)
    return Response(status=202, body=[job_json(entry) for entry in drained])


def _service(desk: ApiService, asked: Asked) -> Response:
    desk.serve(
        asked.request.caller, asked.names["gpu"], in_service=asked.body.in_service
    )
    return Response(body={})


def _files(desk: ApiService, asked: Asked) -> Response:
    return Response(body=asdict(desk.files(asked.request.caller, asked.names["job"])))


def _quarantine(desk: ApiService, asked: Asked) -> Response:
    kept = desk.quarantined(asked.request.caller)
    return Response(body=[asdict(row) for row in kept])


def _put_back(desk: ApiService, asked: Asked) -> Response:
    desk.put_back(asked.request.caller, asked.names["gpu"])
    return Response(body={})


def _ledger(desk: ApiService, asked: Asked) -> Response:
    return Response(body=desk.copy_of_ledger(asked.request.caller))


def _audit(desk: ApiService, asked: Asked) -> Response:
    return Response(body=[asdict(row) for row in desk.audit(asked.request.caller)])


def _openapi(_desk: ApiService, _asked: Asked) -> Response:
    return Response(body=published())


@cache
def published() -> Schema:
    """The OpenAPI document of all routes."""
    return document(ROUTES)


def _route(method: str, path: str, answer: Answer, about: str, **more: Any) -> Route:
    return Route(method=method, path=path, answer=answer, about=about, **more)


_JOB = json_schema.named("Job")
_JOBS = json_schema.array(_JOB)
_LOG_HEADERS = {
    ATTEMPT: json_schema.COUNT,
    OFFSET: json_schema.COUNT,
    ENDED: {"enum": ["true", "false"]},
}

ROUTES: tuple[Route, ...] = (
    _route("GET", "/v1/openapi.json", _openapi, "This document.",
           shape={"type": "object"}),
    _route("GET", "/v1/status", _status, "The box, its GPUs and all jobs.",
           shape=json_schema.named("Box")),
    _route("POST", "/v1/jobs", _submit, "Submit a job.", body=Submission, success=201,
           shape=_JOB),
    _route("GET", "/v1/jobs/{job}", _job, "One job.", shape=_JOB),
    _route("GET", "/v1/jobs/{job}/logs", _logs, "A part of what an attempt printed.",
           query=LogsQuery, shape=json_schema.BINARY, headers=_LOG_HEADERS),
    _route("GET", "/v1/jobs/{job}/files", _files, "Where a job keeps its files.",
           shape=json_schema.named("Files")),
    _route("POST", "/v1/jobs/{job}/stop", _stop, "End a job.", body=EndRequest, success=202,
           shape=_JOB),
    _route("POST", "/v1/jobs/{job}/start", _start, "Begin or resume a job that ended.",
           body=BeginRequest, success=202, shape=_JOB),
    _route("POST", "/v1/jobs/{job}/restart", _restart, "Drain a job; it goes on anew.",
           success=202, shape=_JOB),
    _route("POST", "/v1/jobs/{job}/forget", _forget,
           "Take a job that does not run off the list."),
    _route("GET", "/v1/incidents", _incidents, "What went wrong, of all jobs or one.",
           query=Narrowed, shape=json_schema.array(json_schema.named("Incident"))),
    _route("POST", "/v1/incidents/{incident}/acknowledge", _acknowledge,
           "Somebody has seen it."),
    _route("POST", "/v1/box/pause", _pause, "Start nothing more."),
    _route("POST", "/v1/box/resume", _resume, "Start jobs again."),
    _route("POST", "/v1/box/drain", _drain, "Drain every job.", success=202,
           shape=_JOBS),
    _route("GET", "/v1/gpus", _gpus, "What the driver says of the GPUs, and whose they are.",
           shape=json_schema.named("Gpus")),
    _route("POST", "/v1/gpus/{gpu}/service", _service,
           "Take a GPU out of service, or back.", body=Service),
    _route("GET", "/v1/quarantine", _quarantine,
           "The GPUs that are kept out of use for what they did.",
           shape=json_schema.array(json_schema.named("Quarantined"))),
    _route("POST", "/v1/gpus/{gpu}/return", _put_back, "Out of quarantine."),
    _route("GET", "/v1/ledger", _ledger, "A copy of the ledger: an SQLite file.",
           shape=json_schema.BINARY),
    _route("GET", "/v1/audit", _audit, "Who did what.",
           shape=json_schema.array(json_schema.named("Audit"))),
)  # fmt: skip
