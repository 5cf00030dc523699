"""The key of compilations: what decides, beside the computation, what XLA makes of it.

TensorFlow's own key of an entry is the computation, its arguments and the kind of device
(``XLA_CPU_JIT``): neither versions, nor the machine, nor XLA's flags, nor whether
algorithms are to be deterministic. All of that is here, so that what another would have
compiled is never found. What is not known to matter is taken to matter.
"""

import hashlib
import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from supervisor.wire.messages.directive import Directive

COMPILERS = re.compile(
    r"(tensorflow|keras|jax|nvidia|triton|intel|ml_dtypes|numpy)[^/]*\.dist-info",
    re.IGNORECASE,
)
"""Distributions that compile, or bring what is compiled for."""
VARIABLES = ("TF_", "XLA_", "JAX_", "KERAS_", "CUDA_", "CUDNN_", "CUBLAS_", "NVIDIA_")
"""How environment variables begin that may decide it."""
NEVER_DECIDE = frozenset(
    {
        "TF_BFC_MEMORY_DUMP",
        "JAX_COMPILATION_CACHE_DIR",
        "TF_CPP_MIN_LOG_LEVEL",
        "TF_CPP_MAX_VLOG_LEVEL",
    }
)
"""The first two name another place in each attempt."""
VISIBLE = "CUDA_VISIBLE_DEVICES"
MODEL = re.compile(r"^Model:\s*(.*)$", re.MULTILINE)


def key_of(
    framework: str,
    directive: Directive,
    environment: Mapping[str, str],
    settings: Iterable[str] = (),
) -> str:
    """For the compilations of ``framework`` by this interpreter, here and now;
    ``settings``: what a script may set of the framework in its process."""
    gpus = gpu_models(Path("/proc/driver/nvidia"))
    facts = [
        framework,
        directive.script_hash,
        f"deterministic={directive.deterministic}",
        f"gpu_memory={directive.gpu_memory_limit_bytes}",
        *distributions(sys.path),
        platform.machine(),
        f"cores={len(os.sched_getaffinity(0))}",
        processor(_text(Path("/proc/cpuinfo"))),
        _text(Path("/proc/driver/nvidia/version")),
        *gpus,
        *variables(environment, one_model=len(set(gpus)) < 2),
        *settings,
    ]
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()[:32]


def distributions(places: Iterable[str]) -> list[str]:
    """The compilers that are installed in ``places``, each with its version."""
    return sorted(
        name
        for place in dict.fromkeys(places)
        for name in _names(Path(place))
        if COMPILERS.fullmatch(name)
    )


def processor(cpuinfo: str) -> str:
    """Model and features of the first processor that proc(5) tells of: code for one is
    not for another, though the state directory may be the same."""
    first = cpuinfo.partition("\n\n")[0]
    kept = ("model name", "flags", "Features", "CPU part")
    return "\n".join(line for line in first.splitlines() if line.startswith(kept))


def gpu_models(driver: Path) -> list[str]:
    """The models of the machine's GPUs, as the driver tells them below ``driver``."""
    return sorted(
        model[1]
        for name in _names(driver / "gpus")
        if (model := MODEL.search(_text(driver / "gpus" / name / "information")))
    )


def variables(environment: Mapping[str, str], *, one_model: bool) -> Iterator[str]:
    """The settings that may decide it. ``one_model``: which of the machine's GPUs it is
    does not."""
    for name, value in sorted(environment.items()):
        which = name == VISIBLE and one_model and bool(value)
        if name.startswith(VARIABLES) and name not in NEVER_DECIDE and not which:
            yield f"{name}={value}"


def _names(place: Path) -> list[str]:
    try:
        return os.listdir(place)  # noqa: PTH208  # names are enough
    except OSError:
        return []


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
