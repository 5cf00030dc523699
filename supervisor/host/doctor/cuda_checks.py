"""Do driver, CUDA libraries and TensorFlow go together? Findings of the doctor.

What TensorFlow was built with is read from its files by the job's own interpreter
(``framework_probe``); what the driver can run is asked of NVML (``driver_probe``). Both
are children with a time limit; nothing of TensorFlow is imported.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from supervisor.host.doctor.child_answer import answer_of
from supervisor.host.doctor.finding import Finding, fine, problem, unchecked, warning

PROBE = Path(__file__).with_name("framework_probe.py")
AND_CUDA = "pip install 'tensorflow[and-cuda]'"
EXTRA = re.compile(r"""extra\s*==\s*["']and-cuda["']""")

SILENT = "the NVIDIA driver does not answer: what it runs was not compared"

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """TensorFlow in one interpreter."""

    python: str
    name: str | None
    """Of its distribution; None: there is none."""
    version: str | None = None
    built_with: Mapping[str, Any] | None = None
    """As ``tf.sysconfig.get_build_info`` says it."""
    wants: Sequence[str] = ()
    """Requirements of its distribution, those of the extra ``and-cuda`` among them."""
    nvidia: Mapping[str, str] = field(default_factory=dict[str, str])
    """NVIDIA's distributions beside it, and their versions."""
    libraries: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    """CUDA libraries of the machine itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverVersion:
    """What the driver says."""

    cuda: Version
    """The newest CUDA it can run."""
    gpus: int


def parse_version(text: str) -> Version:
    """``12.5.1`` as (12, 5, 1); what is no number ends it."""
    found = re.match(r"\d+(?:\.\d+)*", text)
    return () if found is None else tuple(map(int, found[0].split(".")))


def parse_driver(answer: Mapping[str, Any] | None) -> DriverVersion | None:
    """NVML counts 12.4 as 12040 (nvml.h: NVML_CUDA_DRIVER_VERSION_MAJOR, _MINOR)."""
    if answer is None:
        return None
    number = int(answer["cuda"])
    return DriverVersion(
        cuda=(number // 1000, number % 1000 // 10), gpus=int(answer["gpus"])
    )


def findings(
    framework: Framework | None, driver: DriverVersion | None, *, gpu: bool = False
) -> list[Finding]:
    """All that is to be said about the two; ``framework`` None: it could not be read.
    ``gpu``: a driver is loaded, whether it answers or not."""
    if framework is None or framework.name is None:
        return [_no_tensorflow(framework)]
    found = [_tensorflow(framework)]
    if driver is None and gpu:
        return [*found, unchecked("CUDA", SILENT)]
    if driver is None or not driver.gpus:
        return found
    cuda = (framework.built_with or {}).get("cuda_version")
    if not (framework.built_with or {}).get("is_cuda_build"):
        return [*found, _without_cuda(framework, driver)]
    libraries = _libraries(framework)
    return [*found, _driver(str(cuda or ""), driver), *libraries]


def _no_tensorflow(framework: Framework | None) -> Finding:
    where = "" if framework is None else f" in {framework.python}"
    text = f"there is none{where}: Keras scripts cannot run with it"
    fix = (
        "pip install 'trainwarden[tensorflow]', or name the job's interpreter "
        "with --python"
    )
    return warning("TensorFlow", text, fix)


def _tensorflow(framework: Framework) -> Finding:
    built = framework.built_with or {}
    cuda = built.get("cuda_version")
    with_cuda = f"CUDA {cuda}, cuDNN {built.get('cudnn_version', '?')}"
    how = f"built with {with_cuda}" if built.get("is_cuda_build") else "for CPUs alone"
    return fine("TensorFlow", f"{framework.version}, {how} ({framework.python})")


def _without_cuda(framework: Framework, driver: DriverVersion) -> Finding:
    other = f"pip uninstall {framework.name}, then " * (framework.name != "tensorflow")
    text = f"TensorFlow is for CPUs alone: {driver.gpus} GPUs stay unused"
    return warning("CUDA", text, f"{other}{AND_CUDA}")


def _driver(built: str, driver: DriverVersion) -> Finding:
    """A driver runs every CUDA up to its own version, and with some loss what is newer
    by a minor version (docs.nvidia.com: CUDA Compatibility, minor version)."""
    wanted, has = parse_version(built)[:2], driver.cuda
    runs = f"the driver runs CUDA up to {_text(has)}"
    if not wanted or wanted <= has:
        return fine("CUDA", runs)
    text = f"{runs}, TensorFlow was built with {_text(wanted)}"
    fix = f"a driver for CUDA {_text(wanted)} or newer: see nvidia.com/drivers"
    if wanted[0] > has[0]:
        return problem("CUDA", text, fix)
    return warning("CUDA", f"{text}: it runs, XLA compiles more slowly", fix)


def _libraries(framework: Framework) -> list[Finding]:
    """NVIDIA's wheels against what TensorFlow's own wheel asks for."""
    wanted = [r for r in framework.wants if EXTRA.search(r)]
    missing = [name for name in map(_name, wanted) if name not in framework.nvidia]
    wrong = [why for r in wanted if (why := _unfit(r, framework.nvidia))]
    about = "CUDA libraries"
    if wrong:
        return [problem(about, f"beside TensorFlow {'; '.join(wrong)}", AND_CUDA)]
    if not missing:
        cudnn = next((v for n, v in framework.nvidia.items() if "cudnn" in n), "?")
        return [fine(about, f"NVIDIA's wheels fit TensorFlow (cuDNN {cudnn})")]
    of_machine = {name: path for name, path in framework.libraries.items() if path}
    if len(of_machine) == len(framework.libraries) and of_machine:
        return [fine(about, f"the machine's own: {', '.join(of_machine.values())}")]
    return [problem(about, f"{', '.join(missing)} missing: no GPU is used", AND_CUDA)]


def _name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    return "" if found is None else found[0].lower().replace("_", "-")


def _unfit(requirement: str, installed: Mapping[str, str]) -> str | None:
    """Why what is installed does not satisfy it; None: it does, or is not there."""
    name = _name(requirement)
    version = installed.get(name)
    if version is None:
        return None
    bounds = requirement.partition(";")[0].removeprefix(name)
    for sign, bound in re.findall(r"(>=|<)\s*([0-9.]+)", bounds):
        low, has = parse_version(bound), parse_version(version)
        if (sign == ">=" and has < low) or (sign == "<" and has >= low):
            return f"{name} is {version}, and {bounds.strip()} is needed"
    return None


def _text(version: Version) -> str:
    return ".".join(map(str, version))


def examine(python: str, *, gpu: bool) -> list[Finding]:
    """Findings about the TensorFlow of ``python`` and the driver of this machine; ``gpu``:
    one is loaded."""
    told = answer_of([python, "-I", str(PROBE)])
    framework = None if told is None else Framework(**told)
    asked = answer_of([sys.executable, "-m", "supervisor.host.doctor.driver_probe"])
    return findings(framework, parse_driver(asked), gpu=gpu)


def missing_gpus(wanted: Sequence[int | str] | None) -> str | None:
    """Why there cannot be all of ``wanted``, in a sentence; None: there may be. Of UUIDs,
    and of a driver that does not answer, nothing is said."""
    indices = [one for one in wanted or () if isinstance(one, int)]
    if not indices:
        return None
    asked = answer_of([sys.executable, "-m", "supervisor.host.doctor.driver_probe"])
    driver = parse_driver(asked)
    if driver is None:
        there = Path("/proc/driver/nvidia/version").exists()
        return None if there else "there is no GPU here: no NVIDIA driver answers"
    beyond = [one for one in indices if one >= driver.gpus]
    if not beyond:
        return None
    has = f"this machine has {driver.gpus}, counted from 0"
    return f"there is no GPU {', '.join(map(str, beyond))}: {has}"
