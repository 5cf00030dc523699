"""The experiment trackers that we know, and how a run of each goes on.

| tracker | goes on by | documented in |
| --- | --- | --- |
| Weights & Biases | ``wandb.init(id=…, resume="allow")`` | the reference of ``wandb.init`` |
| MLflow | ``mlflow.start_run(run_id=…)`` | the reference of ``mlflow.start_run`` |
"""

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

OFFLINE_SINCE = (0, 31)
"""From here on W&B joins what the attempts of a run wrote offline when that is uploaded;
before, it ignores ``resume`` there."""


def _nothing(_module: ModuleType, _run: Any) -> None:
    """There is nothing to allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracker:
    """A library that keeps runs of its own."""

    title: str
    package: str
    function: str
    """Begins a run."""
    id_argument: str
    with_id: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What is given beside the id."""
    chosen_by: tuple[str, ...]
    """Arguments by which a script says itself which run it is."""
    variables: tuple[str, ...]
    """Variables of the environment that say so."""
    named_by: tuple[str, ...]
    """Arguments that tell several runs of a script apart."""
    id_of: Callable[[ModuleType, Any], str | None]
    """The id of a run, if it can go on."""
    allow: Callable[[ModuleType, Any], None] = _nothing
    """A run goes on: that the script, running again from its top, gives another value
    (a time, say) than an earlier attempt is no error."""


# --- Weights & Biases ----------------------------------------------------------------


def version_of(text: str) -> tuple[int, ...]:
    """Major and minor number of a version; empty where they cannot be read."""
    found = re.match(r"(\d+)\.(\d+)", text)
    return tuple(map(int, found.groups())) if found else ()


def _wandb_id(wandb: ModuleType, run: Any) -> str | None:
    joined = version_of(wandb.__version__) >= OFFLINE_SINCE
    if run.disabled or (run.offline and not joined):
        return None
    return str(run.id)


def _wandb_allow(_wandb: ModuleType, run: Any) -> None:
    """What the server has kept of the configuration may be set again."""
    kept = set(run.config.keys())
    original = run.config._sanitize  # noqa: SLF001  # there is no public way

    def sanitize(key: str, val: Any, allow_val_change: Any = None) -> Any:
        return original(key, val, allow_val_change or key in kept)

    object.__setattr__(run.config, "_sanitize", sanitize)


# --- MLflow --------------------------------------------------------------------------


def _mlflow_id(_mlflow: ModuleType, run: Any) -> str | None:
    return str(run.info.run_id)


def _mlflow_allow(mlflow: ModuleType, run: Any) -> None:
    """A parameter keeps its first value: MLflow lets none change."""
    _going_on(mlflow).add(run.info.run_id)


@functools.cache
def _going_on(mlflow: ModuleType) -> set[str]:
    """The runs whose parameters keep their first values; that is arranged here."""
    runs: set[str] = set()
    for name in ("log_param", "log_params"):
        original = getattr(mlflow, name)
        signature = inspect.signature(original)
        setattr(mlflow, name, _first_stays(mlflow, runs, original, signature))
    return runs


def _first_stays(
    mlflow: ModuleType,
    runs: set[str],
    original: Callable[..., Any],
    signature: inspect.Signature,
) -> Callable[..., Any]:
    @functools.wraps(original)
    def log(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except Exception:
            asked = signature.bind(*args, **kwargs)
            run_id = asked.arguments.get("run_id") or mlflow.active_run().info.run_id
            if run_id not in runs:
                raise
            known = mlflow.get_run(run_id).data.params
            if asked.arguments.get("key") in known:
                return asked.arguments["value"]
            new = without(asked.arguments.get("params", {}), known)
            if new == asked.arguments.get("params", {}):
                raise
            asked.arguments["params"] = new
            return original(*asked.args, **asked.kwargs) if new else None

    return log


def without(given: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """What of ``given`` is not ``known``."""
    return {name: value for name, value in given.items() if name not in known}


TRACKERS = (
    Tracker(
        title="Weights & Biases",
        package="wandb",
        function="init",
        id_argument="id",
        with_id={"resume": "allow"},
        chosen_by=("id", "run_id", "resume", "resume_from", "fork_from"),
        variables=(
            "WANDB_RUN_ID",
            "WANDB_RESUME",
            "WANDB_SWEEP_ID",
            "WANDB_LAUNCH",
        ),
        named_by=("entity", "project", "group", "job_type", "name"),
        id_of=_wandb_id,
        allow=_wandb_allow,
    ),
    Tracker(
        title="MLflow",
        package="mlflow",
        function="start_run",
        id_argument="run_id",
        chosen_by=("run_id",),
        variables=("MLFLOW_RUN_ID",),
        named_by=("experiment_id", "run_name"),
        id_of=_mlflow_id,
        allow=_mlflow_allow,
    ),
)
