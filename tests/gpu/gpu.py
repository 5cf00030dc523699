"""``make gpu``: what a machine with an NVIDIA GPU tells us, and whether we read it rightly.

Some ten minutes, with whatever of TensorFlow, JAX and PyTorch is installed and sees the
GPU: the first one, or the first that ``CUDA_VISIBLE_DEVICES`` names. It changes no setting
of the GPU, and does nothing that takes memory from other processes on it, unless it is told
to. The report, a JSON file to attach to an issue, names no board, machine or person.
What cannot be done here is skipped, in a sentence. Without a GPU it says what it would do,
and ends with 0.

``python -m tests.gpu.gpu [--only NAME …] [--out FILE] [--jobs 3] [--keep DIR]
[--anyway] [--list]``
"""

# ruff: noqa: T201  # printing is the job

import argparse
import importlib.metadata
import itertools
import json
import os
import platform
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from supervisor.host.gpu.nvml import AbsentError, Nvml
from tests.gpu import allocator_checks, driver_checks, training_checks
from tests.gpu.anonymous_report import anonymous
from tests.gpu.chosen_gpu import ChosenGpu, chosen, looked_at, narrowed
from tests.gpu.frameworks import lacking
from tests.gpu.gpu_check import CheckResult, GpuCheck, judged

TABLE = (*driver_checks.CHECKS, *allocator_checks.CHECKS, *training_checks.CHECKS)
PACKAGES = ("tensorflow", "keras", "jax", "torch", "numpy", "nvidia-ml-py")


def versions() -> dict[str, str | None]:
    """Of what was tried; None: not installed."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def driver() -> tuple[dict[str, Any], str]:
    """The driver and the GPU to use; its UUID. Raises AbsentError where there is none."""
    nvml = Nvml()
    found = chosen(nvml.devices, os.environ)
    if isinstance(found, str):
        raise AbsentError(found)
    return {"driver": nvml.driver, "gpu": found.name}, found.uuid


def lacks(check: GpuCheck, gpu: ChosenGpu, *, anyway: bool) -> str:
    """Why ``check`` cannot be done here; empty: it can."""
    because = check.lacks(gpu, anyway=anyway)
    missing = (lacking(name) for name in check.needs)
    return because or next((one for one in missing if one), "")


def fresh(directory: Path) -> Path:
    """A new directory in it, by number: what was kept before stays."""
    numbers = (directory / str(number) for number in itertools.count(1))
    inner = next(one for one in numbers if not one.exists())
    inner.mkdir(parents=True)
    return inner


def line(result: CheckResult) -> str:
    """One row of the table, with what is wrong below it."""
    head = f"{result.check.name:22} {result.mark:8} {result.seconds:6.1f} s"
    left_out = [f"left out: {one}" for one in result.seen.left_out]
    below = [result.skipped] if result.skipped else [*result.seen.problems, *left_out]
    return "\n".join([f"{head}  {result.check.what}", *(f"    {one}" for one in below)])


def all_judged(
    checks: Iterable[GpuCheck],
    directory: Path,
    gpu: ChosenGpu,
    *,
    jobs: int,
    anyway: bool,
) -> Iterable[CheckResult]:
    """Those that need the whole GPU one by one, then the others side by side."""
    every = list(checks)

    def done(check: GpuCheck, because: str) -> CheckResult:
        return judged(check, directory / check.name, gpu, because)

    for check in every:
        if check.alone:
            yield done(check, lacks(check, gpu, anyway=anyway))
    beside = [check for check in every if not check.alone]
    because = [lacks(check, gpu, anyway=anyway) for check in beside]
    with ThreadPoolExecutor(gpu.jobs(jobs)) as pool:
        yield from pool.map(done, beside, because)


def report(about: dict[str, Any], results: Iterable[CheckResult]) -> dict[str, Any]:
    """What is written."""
    return {
        **about,
        "checks": {
            result.check.name: {
                "mark": result.mark,
                "seconds": round(result.seconds, 1),
                "skipped": result.skipped or None,
                "problems": result.seen.problems,
                "left_out": result.seen.left_out,
                "facts": result.seen.facts,
            }
            for result in results
        },
    }


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=str(__doc__))
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--out", type=Path, default=Path("gpu-report.json"))
    parser.add_argument(
        "--keep", type=Path, help="what runs leave behind stays there, by number"
    )
    parser.add_argument("--jobs", type=int, default=3, help="checks at a time")
    parser.add_argument(
        "--anyway",
        action="store_true",
        help="also beside other processes on the GPU, whose memory it may take",
    )
    parser.add_argument("--list", action="store_true", help="only name the checks")
    return parser.parse_args()


def main() -> int:
    """The command."""
    options = parse()
    known = {check.name: check for check in TABLE}
    strange = [name for name in options.only if name not in known]
    if strange:
        sys.exit(f"no such check: {', '.join(strange)}; --list shows them")
    wanted = [known[name] for name in options.only] or list(TABLE)
    listed = "\n".join(f"{check.name:22} {check.what}" for check in wanted)
    if options.list:
        print(listed)
        return 0
    try:
        about, uuid = driver()
    except AbsentError as error:
        print(f"{error}.\nWith a GPU these would be done:\n{listed}")
        return 0
    about["versions"] = versions()
    os.environ.update(narrowed(uuid))
    gpu = looked_at(uuid)
    print(", ".join(f"{name} {value}" for name, value in about.items()), flush=True)
    done: list[CheckResult] = []
    with tempfile.TemporaryDirectory(prefix="gpu-") as directory:
        kept = fresh((options.keep or Path(directory)).resolve())
        for result in all_judged(
            wanted, kept, gpu, jobs=options.jobs, anyway=options.anyway
        ):
            done.append(result)
            print(line(result), flush=True)
            # After each: what was seen outlives whatever comes next.
            seen = json.loads(json.dumps(report(about, done), default=str))
            written = json.dumps(anonymous(seen, kept), indent=1, sort_keys=True)
            options.out.write_text(f"{written}\n")
    marks = Counter(result.mark for result in done)
    counted = ", ".join(f"{count} {name}" for name, count in sorted(marks.items()))
    print(f"\n{len(done)} checks: {counted}. The report is {options.out}")
    return 1 if marks["FAILS"] else 0


if __name__ == "__main__":
    sys.exit(main())
