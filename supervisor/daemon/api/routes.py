"""The control interface, version 1: a table of routes, and its OpenAPI document."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import cache
from typing import Any, cast

import supervisor
from supervisor.core.gpu.gpu_view import Tenancy, picture
from supervisor.core.jobs.authorization import Permission
from supervisor.core.jobs.job_status import JobState, status_json
from supervisor.core.jobs.spec import SpecError, build_spec, check_for_daemon, validated
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
from supervisor.daemon.api_service import ApiService
from supervisor.daemon.job_logs import log_part
from supervisor.daemon.managed_job import (
    ForbiddenError,
    ManagedJob,
    SchedulerError,
    UnknownJobError,
)
from supervisor.host.control.control_server import Encoded, Request, Response
from supervisor.host.ledger.ledger import LedgerError
from supervisor.runtime.run_setup import ResumeOptions

ATTEMPT, OFFSET, ENDED = (
    "Trainwarden-Attempt",
    "Trainwarden-Offset",
    "Trainwarden-Ended",
)
"""Headers beside a part of a log: of which attempt, where the next part begins, and
whether nothing will follow."""


def answer(api: ApiService, request: Request) -> Response:
    """The response to ``request``; never raises for what a caller did."""
    found = [(r, r.match(request.path)) for r in ROUTES]
    here = [(route, names) for route, names in found if names is not None]
    for route, names in here:
        if route.method == request.method:
            return _guarded(api, request, route, names)
    if not here:
        return _error(404, f"there is no {request.path}; see /v1/openapi.json")
    allowed = ", ".join(sorted(route.method for route, _ in here))
    refused = _error(405, f"{request.method} is not among {allowed}")
    return Response(status=405, body=refused.body, headers={"Allow": allowed})


def _guarded(
    api: ApiService, request: Request, route: Route, names: Mapping[str, str]
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
        found = route.answer(api, asked)
        if isinstance(found, Response):
            return found
        return Response(status=route.success, body=found)
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


def job_json(entry: ManagedJob, *, whole: bool = True) -> dict[str, Any]:
    """A job as it is shown: its status, and what the daemon adds. Not ``whole``: without
    sentences that quote what it printed, or name what is in its script."""
    status = entry.status()
    if not whole and status.state is not JobState.QUEUED:
        status = replace(
            status,
            message="",
            promise=None,
            last_error=None,
            step_needs=None,
            standby=None,
        )
    return {
        **status_json(status),
        "owner": entry.row.owner,
        "priority": entry.spec.priority,
        "gpus": list(entry.life.gpus),
        "wanted": entry.row.wanted.value,
        "source": entry.row.source,
    }


def _status(api: ApiService, asked: Asked) -> object:
    api.look(asked.request.caller)
    scheduler = api.scheduler
    holders = scheduler.holders()
    box = {
        "version": supervisor.__version__,
        "launcher": scheduler.starter.launcher_factory.about,
        "paused_by": scheduler.paused_by,
        "gpus": [
            {
                "gpu": gpu,
                "in_service": gpu not in scheduler.out_of_service,
                "job": holders.get(gpu),
            }
            for gpu in scheduler.gpus()
        ],
        "problems": scheduler.problems,
    }
    caller = asked.request.caller
    jobs = b", ".join(
        _job_bytes(entry, whole=api.sees_all_of(caller, entry))
        for entry in scheduler.entries.values()
    )
    head = json.dumps(box).encode()[:-1]
    return Response(body=Encoded(b'%s, "jobs": [%s]}\n' % (head, jobs)))


def _job_bytes(entry: ManagedJob, *, whole: bool) -> bytes:
    """``job_json``; of a job at rest it is made once for those who see all of it."""
    if entry.supervisor is not None or not (whole or entry.state is JobState.QUEUED):
        return json.dumps(job_json(entry, whole=whole)).encode()
    return entry.shown_at_rest(lambda job: json.dumps(job_json(job)).encode())


def _gpus(api: ApiService, asked: Asked) -> object:
    """What the driver said last, and who was given what; never waits."""
    api.look(asked.request.caller)
    observer = api.scheduler.starter.observer
    view = observer.gpus()
    fresh = view.fresh(observer.clock.now()) is not None
    tenancy = Tenancy(
        owners=observer.machine().owners,
        holders=api.scheduler.holders(),
        out=api.scheduler.out_of_service,
    )
    shown = picture(
        view.sample,
        fresh=fresh,
        problem="" if fresh else view.problem or "The GPU driver has not answered yet.",
        reboot=view.reboot,
        xids=view.xids,
        tenancy=tenancy,
    )
    return asdict(shown)


def _job(api: ApiService, asked: Asked) -> object:
    caller = asked.request.caller
    found = api.entry(caller, asked.names["job"], Permission.LOOK)
    return job_json(found, whole=api.sees_all_of(caller, found))


def _choice(body: BeginRequest) -> ResumeOptions:
    return ResumeOptions(fresh=body.fresh, accept_changes=body.accept_changes)


def _submit(api: ApiService, asked: Asked) -> object:
    tables = asked.body.spec
    spec = build_spec(tables)
    check_for_daemon(spec)
    entry = api.submit(
        asked.request.caller,
        tables,
        spec,
        owner=asked.body.user,
        choice=_choice(asked.body),
    )
    return job_json(entry)


def _stop(api: ApiService, asked: Asked) -> object:
    caller, drain = asked.request.caller, asked.body.drain
    return job_json(api.stop(caller, asked.names["job"], drain=drain))


def _start(api: ApiService, asked: Asked) -> object:
    caller, choice = asked.request.caller, _choice(asked.body)
    return job_json(api.start(caller, asked.names["job"], choice))


def _restart(api: ApiService, asked: Asked) -> object:
    return job_json(api.restart(asked.request.caller, asked.names["job"]))


def _forget(api: ApiService, asked: Asked) -> object:
    api.forget(asked.request.caller, asked.names["job"])
    return {}


def _logs(api: ApiService, asked: Asked) -> object:
    page = asked.query
    entry = api.entry(asked.request.caller, asked.names["job"], Permission.OWN)
    part = log_part(
        api.scheduler.starter, entry, attempt=page.attempt, offset=page.offset
    )
    headers = {
        ATTEMPT: str(part.attempt),
        OFFSET: str(part.offset),
        ENDED: "true" if part.ended else "false",
    }
    return Response(body=part.content, headers=headers)


def _incidents(api: ApiService, asked: Asked) -> object:
    caller, job = asked.request.caller, asked.query.job
    return [asdict(one) for one in api.incidents(caller, job=job)]


def _acknowledge(api: ApiService, asked: Asked) -> object:
    number = asked.names["incident"]
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        message = f"there is no incident {number!r}"
        raise UnknownJobError(message)
    api.acknowledge(asked.request.caller, int(number))
    return {}


def _pause(api: ApiService, asked: Asked) -> object:
    api.pause(asked.request.caller, paused=True)
    return {}


def _resume(api: ApiService, asked: Asked) -> object:
    api.pause(asked.request.caller, paused=False)
    return {}


def _service(api: ApiService, asked: Asked) -> object:
    caller, in_service = asked.request.caller, asked.body.in_service
    api.serve(caller, asked.names["gpu"], in_service=in_service)
    return {}


def _files(api: ApiService, asked: Asked) -> object:
    return asdict(api.files(asked.request.caller, asked.names["job"]))


def _history(api: ApiService, asked: Asked) -> object:
    return [asdict(run) for run in api.history(asked.request.caller)]


def _record(api: ApiService, asked: Asked) -> object:
    return asdict(api.record(asked.request.caller, asked.names["job"]))


def _quarantine(api: ApiService, asked: Asked) -> object:
    return [asdict(row) for row in api.quarantined(asked.request.caller)]


def _put_back(api: ApiService, asked: Asked) -> object:
    api.put_back(asked.request.caller, asked.names["gpu"])
    return {}


def _ledger(api: ApiService, asked: Asked) -> object:
    return api.copy_of_ledger(asked.request.caller)


def _audit(api: ApiService, asked: Asked) -> object:
    return [asdict(row) for row in api.audit(asked.request.caller)]


def _openapi(_api: ApiService, _asked: Asked) -> object:
    return published()


@cache
def published() -> Schema:
    """The OpenAPI document of all routes."""
    return document(ROUTES)


def _route(method: str, path: str, answer: Answer, about: str, **more: Any) -> Route:
    return Route(method=method, path=path, answer=answer, about=about, **more)


_JOB = json_schema.named("Job")
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
    _route("GET", "/v1/jobs/{job}/record", _record, "How its newest run went.",
           shape=json_schema.named("Record")),
    _route("POST", "/v1/jobs/{job}/stop", _stop, "End a job.", body=EndRequest, success=202,
           shape=_JOB),
    _route("POST", "/v1/jobs/{job}/start", _start, "Begin or resume a job that ended.",
           body=BeginRequest, success=202, shape=_JOB),
    _route("POST", "/v1/jobs/{job}/restart", _restart, "Drain a job; it goes on anew.",
           success=202, shape=_JOB),
    _route("POST", "/v1/jobs/{job}/forget", _forget,
           "Take a job that does not run off the list."),
    _route("GET", "/v1/history", _history, "All runs, the oldest first.",
           shape=json_schema.array(json_schema.named("Run"))),
    _route("GET", "/v1/incidents", _incidents, "What went wrong, of all jobs or one.",
           query=Narrowed, shape=json_schema.array(json_schema.named("Incident"))),
    _route("POST", "/v1/incidents/{incident}/acknowledge", _acknowledge,
           "Somebody has seen it."),
    _route("POST", "/v1/box/pause", _pause, "Start nothing more."),
    _route("POST", "/v1/box/resume", _resume, "Start jobs again."),
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
