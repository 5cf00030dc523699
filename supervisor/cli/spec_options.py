"""A spec from a file and from options: what ``run`` and ``submit`` share."""

from pathlib import Path
from typing import Any, cast

from supervisor.cli.options import fail
from supervisor.core.jobs.spec import Spec, SpecError, build_spec, merge, read_toml


def gpu_list(text: str) -> list[int | str]:
    """Indices or UUIDs between commas."""
    parts = [part.strip() for part in text.split(",")]
    return [int(part) if part.isdigit() else part for part in parts]


def given_only(tables: dict[str, Any]) -> dict[str, Any]:
    """Without what was not given."""
    kept = {
        key: given_only(cast("dict[str, Any]", value))
        if isinstance(value, dict)
        else value
        for key, value in tables.items()
    }
    return {key: value for key, value in kept.items() if value not in (None, {})}


def read_spec(path: Path | None, given: dict[str, Any]) -> Spec:
    """The spec in a file, with what was given above it; ends the command if it is bad."""
    try:
        tables = {} if path is None else read_toml(path.read_text())
        spec = build_spec(merge(tables, given_only(given)))
    except OSError as error:
        fail(f"cannot read the spec {path}: {error.strerror}")
    except UnicodeDecodeError:
        fail(f"cannot read the spec {path}: it is not UTF-8 text")
    except SpecError as error:
        if not error.problems[0].path and path is not None:
            fail(f"the spec {path} {error}")
        if path is None and [str(p) for p in error.problems] == ["script: is required"]:
            fail("which script? Usage: trainwarden run [OPTIONS] SCRIPT [ARGS...]")
        where = "the options" if path is None else f"the spec {path} and the options"
        listed = "\n".join(f"  {problem}" for problem in error.problems)
        fail(f"{where} cannot be used:\n{listed}")
    return spec


def name_of(script: Path) -> str:
    """The name of a job whose spec gives none; ends the command if it cannot be one."""
    try:
        name = build_spec({"script": "-", "name": script.stem}).name
    except SpecError:
        fail(f"{script.stem!r} cannot be the name of a job: give one with --name")
    assert name is not None  # noqa: S101  # it was given
    return name
