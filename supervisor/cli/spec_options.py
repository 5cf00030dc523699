"""A spec from a file and from options: what ``run`` and ``submit`` share."""

from pathlib import Path
from typing import Any, cast

import click

from supervisor.cli.options import fail
from supervisor.core.jobs.spec import Spec, SpecError, build_spec, merge, read_toml
from supervisor.core.jobs.spec_values import checked_name

name_option = click.option(
    "--name", help="Name of the job. Default: the script's, without .py."
)
gpus_option = click.option(
    "--gpus", metavar="0,1", help="Indices or UUIDs of the GPUs to use."
)
cpu_memory_option = click.option(
    "--cpu-memory", metavar="SIZE", help="Limit CPU tensors, e.g. 600MiB."
)
spec_option = click.option(
    "--spec",
    "spec_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A TOML file; options given here win over it.",
)
accept_changes_option = click.option(
    "--accept-changes",
    is_flag=True,
    help="Resume although the script changed since its snapshots were made.",
)
script_argument = click.argument("script", required=False)
args_argument = click.argument("args", nargs=-1, type=click.UNPROCESSED)


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


def read_tables(path: Path | None) -> dict[str, Any]:
    """What stands in a spec file; ends the command if it cannot be read."""
    try:
        return {} if path is None else read_toml(path.read_text())
    except OSError as error:
        fail(f"cannot read the spec {path}: {error.strerror}")
    except UnicodeDecodeError:
        fail(f"cannot read the spec {path}: it is not UTF-8 text")
    except SpecError as error:
        fail(f"the spec {path} {error}")


def spec_of(tables: dict[str, Any], *, where: str) -> Spec:
    """The spec that they are; ends the command if it is bad. ``where``: they stand."""
    try:
        return build_spec(tables)
    except SpecError as error:
        listed = "\n".join(f"  {problem}" for problem in error.problems)
        fail(f"{where} cannot be used:\n{listed}")


def read_spec(path: Path | None, given: dict[str, Any]) -> tuple[dict[str, Any], Spec]:
    """What stands in a file, with what was given above it: as it is written, and the
    spec that it is; ends the command if it is bad."""
    tables = merge(read_tables(path), given_only(given))
    if path is None and "script" not in tables:
        fail("which script? Usage: trainwarden run [OPTIONS] SCRIPT [ARGS...]")
    where = "the options" if path is None else f"the spec {path} and the options"
    return tables, spec_of(tables, where=where)


def name_of(script: Path) -> str:
    """The name of a job whose spec gives none; ends the command if it cannot be one."""
    try:
        return checked_name(script.stem)
    except ValueError:
        fail(f"{script.stem!r} cannot be the name of a job: give one with --name")
