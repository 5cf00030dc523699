"""The control interface, version 1: a table of routes, and its OpenAPI document."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, cast

from pydantic import Field

import supervisor
from supervisor.core.access import Deed
from supervisor.core.spec import SpecError, Table, validated
from supervisor.core.status import status_json
from supervisor.daemon.desk import Choice, Desk
from supervisor.daemon.entries import BoxError, Entry, ForbiddenError, UnknownError
from supervisor.daemon.logs import log_part
from supervisor.daemon.routes import Answer, Route, document
from supervisor.host.control import Request, Response
from supervisor.host.ledger import LedgerError


class Submission(Table):
    """A job: the tables of a spec, with absolute paths."""

    spec: dict[str, Any]
    user: str | None = None
    """As whom it runs; only root and admins may name somebody else."""
    fresh: bool = False
    accept_changes: bool = False


class Beginning(Table):
    """How a job should begin that ran before."""

    fresh: bool = False
    accept_changes: bool = False


class Ending(Table):
    """How a job should end: with its state saved, or at once."""

    drain: bool = False


class Service(Table):
    """Whether a GPU is handed out."""

    in_service: bool


class Page(Table):
    """Which part of a log."""

    attempt: Annotated[int | None, Field(ge=1, le=10**9)] = None
    offset: Annotated[int | None, Field(ge=0, le=2**62)] = None
    """In bytes; None: the last 64 KiB."""


def answer(desk: Desk, request: Request) -> Response:
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
    desk: Desk, request: Request, route: Route, names: Mapping[str, str]
) -> Response:
    try:
        given: Any = {} if request.body is None else request.body
        if not isinstance(given, dict):
            return _error(400, "the body is no JSON object")
        body = validated(route.body, cast("dict[str, Any]", given))
        return route.answer(desk, request, names, body)
    except SpecError as error:
        problems = [str(problem) for problem in error.problems]
        return Response(
            status=400, body={"error": "cannot be used", "problems": problems}
        )
    except (BoxError, LedgerError) as error:
        return _error(_STATUS.get(type(error), 409), str(error))


_STATUS: Mapping[type[Exception], int] = {
    ForbiddenError: 403,
    UnknownError: 404,
    LedgerError: 503,
}
"""By what went wrong; 409 for the rest: not as things are now."""


def _error(status: int, sentence: str) -> Response:
    return Response(status=status, body={"error": sentence})


def job_json(entry: Entry) -> dict[str, Any]:
    """A job as it is shown: its status, and what the daemon adds."""
    return {
        **status_json(entry.status()),
        "owner": entry.row.owner,
        "priority": entry.spec.priority,
        "gpus": list(entry.gpus),
        "wanted": entry.row.wanted.value,
        "source": entry.row.source,
    }


def _status(desk: Desk, request: Request, _n: Mapping[str, str], _b: Any) -> Response:
    desk.look(request.caller)
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
                    (e.name for e in box.entries.values() if gpu in e.gpus), None
                ),
            }
            for gpu in box.gpus()
        ],
        "problems": box.problems,
        "jobs": [job_json(entry) for entry in box.entries.values()],
    }
    return Response(body=body)


def _job(desk: Desk, request: Request, names: Mapping[str, str], _b: Any) -> Response:
    return Response(body=job_json(desk.entry(request.caller, names["job"], Deed.LOOK)))


def _submit(
    desk: Desk, request: Request, _n: Mapping[str, str], body: Submission
) -> Response:
    choice = Choice(fresh=body.fresh, accept_changes=body.accept_changes)
    entry = desk.submit(request.caller, body.spec, owner=body.user, choice=choice)
    return Response(status=201, body=job_json(entry))


def _stop(
    desk: Desk, request: Request, names: Mapping[str, str], body: Ending
) -> Response:
    entry = desk.stop(request.caller, names["job"], drain=body.drain)
    return Response(status=202, body=job_json(entry))


def _start(
    desk: Desk, request: Request, names: Mapping[str, str], body: Beginning
) -> Response:
    choice = Choice(fresh=body.fresh, accept_changes=body.accept_changes)
    entry = desk.start(request.caller, names["job"], choice)
    return Response(status=202, body=job_json(entry))


def _restart(
    desk: Desk, request: Request, names: Mapping[str, str], _b: Any
) -> Response:
    entry = desk.restart(request.caller, names["job"])
    return Response(status=202, body=job_json(entry))


def _logs(desk: Desk, request: Request, names: Mapping[str, str], _b: Any) -> Response:
    query: dict[str, Any] = {
        key: int(value) if value.isascii() and value.isdigit() else value
        for key, value in request.query.items()
    }
    page = validated(Page, query)
    entry = desk.entry(request.caller, names["job"], Deed.OWN)
    part = log_part(desk.box.starter, entry, attempt=page.attempt, offset=page.offset)
    headers = {
        "Trainwarden-Attempt": str(part.attempt),
        "Trainwarden-Offset": str(part.offset),
        "Trainwarden-Ended": "true" if part.ended else "false",
    }
    return Response(body=part.content, headers=headers)


def _incidents(
    desk: Desk, request: Request, _n: Mapping[str, str], _b: Any
) -> Response:
    desk.look(request.caller)
    found = desk.ledger.incidents(job=request.query.get("job"))
    return Response(body=[asdict(incident) for incident in found])


def _acknowledge(
    desk: Desk, request: Request, names: Mapping[str, str], _b: Any
) -> Response:
    number = names["incident"]
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        message = f"there is no incident {number!r}"
        raise UnknownError(message)
    desk.acknowledge(request.caller, int(number))
    return Response(body={})


def _pause(desk: Desk, request: Request, _n: Mapping[str, str], _b: Any) -> Response:
    desk.pause(request.caller, paused=True)
    return Response(body={})


def _resume(desk: Desk, request: Request, _n: Mapping[str, str], _b: Any) -> Response:
    desk.pause(request.caller, paused=False)
    return Response(body={})


def _drain(desk: Desk, request: Request, _n: Mapping[str, str], _b: Any) -> Response:
    drained = desk.drain(request.caller)
    return Response(status=202, body=[job_json(entry) for entry in drained])


def _service(
    desk: Desk, request: Request, names: Mapping[str, str], body: Service
) -> Response:
    desk.serve(request.caller, names["gpu"], in_service=body.in_service)
    return Response(body={})


def _audit(desk: Desk, request: Request, _n: Mapping[str, str], _b: Any) -> Response:
    return Response(body=[asdict(row) for row in desk.audit(request.caller)])


def _openapi(_d: Desk, _r: Request, _n: Mapping[str, str], _b: Any) -> Response:
    return Response(body=document(ROUTES))


def _route(method: str, path: str, answer: Answer, about: str, **more: Any) -> Route:
    return Route(method=method, path=path, answer=answer, about=about, **more)


ROUTES: tuple[Route, ...] = (
    _route("GET", "/v1/openapi.json", _openapi, "This document."),
    _route("GET", "/v1/status", _status, "The box, its GPUs and all jobs."),
    _route("POST", "/v1/jobs", _submit, "Submit a job.", body=Submission, success=201),
    _route("GET", "/v1/jobs/{job}", _job, "One job."),
    _route("GET", "/v1/jobs/{job}/logs", _logs, "A part of what an attempt printed."),
    _route("POST", "/v1/jobs/{job}/stop", _stop, "End a job.", body=Ending, success=202),
    _route("POST", "/v1/jobs/{job}/start", _start, "Begin or resume a job that ended.",
           body=Beginning, success=202),
    _route("POST", "/v1/jobs/{job}/restart", _restart, "Drain a job; it goes on anew.",
           success=202),
    _route("GET", "/v1/incidents", _incidents, "What went wrong; ?job= of one job."),
    _route("POST", "/v1/incidents/{incident}/acknowledge", _acknowledge,
           "Somebody has seen it."),
    _route("POST", "/v1/box/pause", _pause, "Start nothing more."),
    _route("POST", "/v1/box/resume", _resume, "Start jobs again."),
    _route("POST", "/v1/box/drain", _drain, "Drain every job.", success=202),
    _route("POST", "/v1/gpus/{gpu}/service", _service,
           "Take a GPU out of service, or back.", body=Service),
    _route("GET", "/v1/audit", _audit, "Who did what."),
)  # fmt: skip
