"""A route of the control interface, and the OpenAPI document of many."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from supervisor.core.spec import Table
from supervisor.daemon.desk import Desk
from supervisor.host.control import Request, Response


class Nothing(Table):
    """No body, or an empty object."""


Answer = Callable[[Desk, Request, Mapping[str, str], Any], Response]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One thing that can be asked for."""

    method: str
    path: str
    """``{name}`` stands for one part of the path."""
    answer: Answer
    about: str
    body: type[Table] = Nothing
    success: int = 200

    @property
    def names(self) -> list[str]:
        """The parts of the path that vary."""
        return re.findall(r"\{(\w+)\}", self.path)

    def match(self, path: str) -> dict[str, str] | None:
        """What the varying parts are in ``path``; None: it is another route's."""
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(self.path))
        found = re.fullmatch(pattern, path)
        return None if found is None else found.groupdict()


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """The OpenAPI 3.1 document of ``routes``."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Trainwarden", "version": "1"},
        "paths": paths,
    }


def _operation(route: Route) -> dict[str, Any]:
    text = {"type": "string"}
    error = {"description": "A sentence in `error` says why not."}
    operation: dict[str, Any] = {
        "summary": route.about,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": text}
            for name in route.names
        ],
        "responses": {
            str(route.success): {"description": "Done."},
            **dict.fromkeys(("400", "403", "404", "409", "503"), error),
        },
    }
    if route.body is not Nothing:
        schema = route.body.model_json_schema()
        content = {"application/json": {"schema": schema}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation
