"""A route of the control interface, and the OpenAPI document of many."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from supervisor.core.jobs.spec import Table
from supervisor.daemon.api import json_schema
from supervisor.daemon.api.json_schema import Schema
from supervisor.daemon.api_service import ApiService
from supervisor.host.control.control_server import BYTES, JSON, Request


class EmptyBody(Table):
    """No body, no query, or an empty object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request, understood."""

    request: Request
    names: Mapping[str, str]
    """What the varying parts of the path are."""
    body: Any
    query: Any


Answer = Callable[[ApiService, Asked], object]
"""The body of what is answered, or all of it: a ``Response``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One thing that can be asked for."""

    method: str
    path: str
    """``{name}`` stands for one part of the path."""
    answer: Answer
    about: str
    body: type[Table] = EmptyBody
    query: type[Table] = EmptyBody
    success: int = 200
    shape: Schema = field(default_factory=lambda: json_schema.NOTHING)
    """Of the answer's body; ``json_schema.BINARY``: bytes."""
    headers: Mapping[str, Schema] = field(default_factory=dict[str, Schema])

    @property
    def names(self) -> list[str]:
        """The parts of the path that vary."""
        return re.findall(r"\{(\w+)\}", self.path)

    def match(self, path: str) -> dict[str, str] | None:
        """What the varying parts are in ``path``; None: it is another route's."""
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(self.path))
        found = re.fullmatch(pattern, path)
        if found is None:
            return None
        return {name: unquote(text) for name, text in found.groupdict().items()}


def document(routes: Iterable[Route]) -> Schema:
    """The OpenAPI 3.1 document of ``routes``."""
    paths: Schema = {}
    schemas = json_schema.components()
    for route in routes:
        operation, named = _operation(route)
        paths.setdefault(route.path, {})[route.method.lower()] = operation
        schemas |= named
    return {
        "openapi": "3.1.0",
        "info": {"title": "Trainwarden", "version": "1"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


ERRORS = {
    400: "What was sent cannot be used.",
    403: "Who asks may not.",
    404: "There is no such thing.",
    409: "Not as things are now.",
    411: "The length of the body is missing.",
    413: "The body is too long.",
    503: "The daemon is busy, or cannot write to its ledger.",
}


def _operation(route: Route) -> tuple[Schema, Schema]:
    query, named = json_schema.of(route.query, "validation")
    operation: Schema = {
        "summary": route.about,
        "parameters": [
            *(_parameter(name, "path", json_schema.TEXT) for name in route.names),
            *(
                _parameter(name, "query", schema)
                for name, schema in query["properties"].items()
            ),
        ],
        "responses": {
            str(route.success): _success(route),
            **{
                str(status): _content(about, JSON, json_schema.named("Error"))
                for status, about in ERRORS.items()
            },
        },
    }
    if route.body is not EmptyBody:
        body, more = json_schema.of(route.body, "validation")
        named |= more
        content = {JSON: {"schema": body}}
        required = bool(body.get("required"))
        operation["requestBody"] = {"required": required, "content": content}
    return operation, named


def _parameter(name: str, place: str, schema: Schema) -> Schema:
    return {"name": name, "in": place, "required": place == "path", "schema": schema}


def _success(route: Route) -> Schema:
    kind = BYTES if route.shape is json_schema.BINARY else JSON
    headers = {
        name: {"required": True, "schema": schema}
        for name, schema in route.headers.items()
    }
    return {**_content("Done.", kind, route.shape), "headers": headers}


def _content(about: str, kind: str, schema: Schema) -> Schema:
    return {"description": about, "content": {kind: {"schema": schema}}}
