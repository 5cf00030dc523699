"""A spec from a file and from options: what ``run`` and ``submit`` share."""

import os
import re
import tomllib
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import click

from supervisor.cli.options import fail
from supervisor.cli.script_lookup import module_file
from supervisor.core.jobs.spec import (
    Problem,
    Spec,
    SpecError,
    build_spec,
    check_for_daemon,
    merge,
    read_toml,
)
from supervisor.core.jobs.spec_values import checked_name

name_option = click.option(
    "--name", help="Name of the job. Default: the script's, without .py."
)
gpus_option = click.option(
    "--gpus", metavar="0,1", help="Indices or UUIDs of the GPUs to use, or none."
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
module_option = click.option(
    "-m",
    "module",
    is_flag=True,
    help="SCRIPT is the name of a module, as of python -m.",
)
"""A flag: all that follows the module is its own, as it is of a script."""
python_option = click.option(
    "--python",
    metavar="PATH",
    help="The interpreter of the script, whose packages it has. Default: that of the"
    " active virtual environment, else ours.",
)
env_option = click.option(
    "--env",
    "variables",
    metavar="NAME=VALUE",
    multiple=True,
    help="Set an environment variable of the script; may be given again.",
)
script_argument = click.argument("script", required=False)
args_argument = click.argument("args", nargs=-1, type=click.UNPROCESSED)


PROJECT = "pyproject.toml"
OURS = "[tool.trainwarden"


def gpu_list(text: str) -> list[int | str]:
    """Indices or UUIDs between commas; ``none`` for no GPU at all."""
    if text.strip() == "none":
        return []
    parts = [part.strip() for part in text.split(",")]
    return [int(part) if part.isdigit() else part for part in parts]


def environment_of(variables: Sequence[str]) -> dict[str, str]:
    """``NAME=VALUE`` each; ends the command where one is not."""
    found = [variable.partition("=") for variable in variables]
    for variable, (name, sign, _) in zip(variables, found, strict=True):
        if not (name and sign):
            fail(f"--env takes NAME=VALUE, such as --env SEED=7; got {variable!r}")
    return {name: value for name, _, value in found}


def asked_script(
    script: str | None, args: tuple[str, ...], *, module: bool
) -> dict[str, Any]:
    """What is to be run; ``module``: ``script`` is the name of one."""
    if module and not script:
        fail("which module? Usage: trainwarden run -m package.train [ARGS...]")
    asked = {"script": script or None, "args": list(args) or None}
    if not script or not module:
        return asked
    return {**asked, "script": module_file(script, Path.cwd()), "module": script}


OURS_ALONE = frozenset(
    {
        "--accept-changes", "--cpu-memory", "--fresh", "--no-output", "--requeued",
        "--snapshot-every", "--state-dir",
    }
)  # fmt: skip
"""Options of ``run`` that few scripts have as well."""


def stands_too_late(args: Sequence[str]) -> str | None:
    """A sentence, where ``args`` of the script hold what reads like an option of ours."""
    asked = args[: args.index("--")] if "--" in args else args
    late = [one for one in asked if one.partition("=")[0] in OURS_ALONE]
    if not late:
        return None
    return (
        f"{late[0]} stands behind the script, and is given to it: options of trainwarden"
        " stand before the script"
    )


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
        return {} if path is None else read_toml(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        fail(f"cannot read the spec {path}: {error.strerror}")
    except UnicodeDecodeError:
        fail(f"cannot read the spec {path}: it is not UTF-8 text")
    except SpecError as error:
        fail(f"the spec {path} {error}")


def refuse_for_daemon(spec: Spec) -> None:
    """End the command where a daemon would refuse the spec: it is a bad one there."""
    try:
        check_for_daemon(spec)
    except SpecError as error:
        fail(str(error))


def spec_of(
    tables: dict[str, Any], *, where: str, given: Mapping[str, Any] | None = None
) -> Spec:
    """The spec that they are; ends the command if it is bad. ``where``: they stand;
    ``given``: those of them that options said."""
    try:
        return build_spec(tables)
    except SpecError as error:
        said = [_told(problem, given or {}) for problem in error.problems]
        if len(said) == 1 and said[0] != str(error.problems[0]):
            fail(said[0])
        listed = "\n".join(f"  {problem}" for problem in said)
        fail(f"{where} cannot be used:\n{listed}")


FLAGS = {
    "name": "--name",
    "script": "SCRIPT",
    "python": "--python",
    "gpus": "--gpus",
    "gpu_count": "--gpu-count",
    "priority": "--priority",
    "memory.cpu": "--cpu-memory",
    "memory.gpu": "--gpu-memory",
    "snapshots.every": "--snapshot-every",
    "metrics.listen": "--metrics",
}
"""By which option a key of the spec is given."""


def _told(problem: Problem, given: Mapping[str, Any]) -> str:
    """It, by the option that was given, if one was."""
    path = problem.path.partition("[")[0]
    table, _, key = path.rpartition(".")
    said = given.get(table, {}) if table else given
    known = path in FLAGS and key in said
    return f"{FLAGS[path]}: {problem.expected}" if known else str(problem)


def read_spec(path: Path | None, given: dict[str, Any]) -> tuple[dict[str, Any], Spec]:
    """What stands in a file, with what was given above it: as it is written, and the
    spec that it is; ends the command if it is bad."""
    project, of_project = project_tables(Path.cwd())
    said = given_only(given)
    tables = merge(merge(of_project, read_tables(path)), said)
    if path is None and "script" not in tables:
        command = click.get_current_context().info_name
        fail(f"which script? Say `trainwarden {command} [OPTIONS] SCRIPT [ARGS...]`")
    places = [f"[tool.trainwarden] of {project}"] if of_project else []
    places += [] if path is None else [f"the spec {path}"]
    return tables, spec_of(
        tables, where=" and ".join([*places, "the options"]), given=said
    )


def project_tables(directory: Path) -> tuple[Path | None, dict[str, Any]]:
    """What ``[tool.trainwarden]`` of the project says, from the ``pyproject.toml`` that is
    nearest to ``directory``; nothing where somebody else could have written that."""
    files = (place / PROJECT for place in (directory, *directory.parents))
    file = next((one for one in files if one.is_file()), None)
    if file is None:
        return None, {}
    text = ""
    try:
        if file.stat().st_uid in {os.geteuid(), 0}:
            text = file.read_text(encoding="utf-8")
        tables = tomllib.loads(text)
    except (OSError, UnicodeDecodeError):
        return None, {}  # whose tools it is for will say so
    except tomllib.TOMLDecodeError as error:
        if OURS not in text:
            return None, {}
        fail(f"{file} is not valid TOML, and has a table {OURS}] for us: {error}")
    tools = tables.get("tool")
    known = cast("dict[str, Any]", tools) if isinstance(tools, dict) else {}
    ours = known.get("trainwarden", {})
    if not isinstance(ours, dict):
        fail(f"trainwarden in [tool] of {file} is no table: write [tool.trainwarden]")
    return file, cast("dict[str, Any]", ours)


def name_of(script: Path) -> str:
    """The name of a job whose spec gives none; ends the command if it cannot be one."""
    stem = script.parent.name if script.name == "__main__.py" else script.stem
    try:
        return checked_name(stem)
    except ValueError:
        fail(f"{stem!r} cannot be the name of a job: give one{_such_as(stem)}")


def _such_as(stem: str) -> str:
    """The nearest name to ``stem`` that can be one."""
    plain = unicodedata.normalize("NFKD", stem).encode("ascii", "ignore").decode()
    nearest = "-".join(re.findall(r"[A-Za-z0-9_]+", plain))[:40]
    return f", such as --name {nearest}" if nearest else " with --name"
