"""``make gpu``: what a machine with an NVIDIA GPU tells us, and whether we read it rightly.

Some ten minutes, with whatever of TensorFlow, JAX and PyTorch is installed. It changes no
setting of the GPU. The report, a JSON file to attach to an issue, names no board.
Without a GPU it says what it would do, and ends with 0.

``python -m tests.gpu.gpu [--only NAME …] [--out FILE] [--jobs 3] [--keep DIR]
[--list]``
"""

# ruff: noqa: T201  # printing is the job

import argparse
import importlib.metadata
import importlib.util
import json
import platform
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from supervisor.host.gpu.nvml import AbsentError, Nvml
from tests.gpu import allocator_checks, driver_checks, training_checks
from tests.gpu.gpu_check import ROOT, CheckResult, GpuCheck, judged

TABLE = (*driver_checks.CHECKS, *allocator_checks.CHECKS, *training_checks.CHECKS)
UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
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


def driver() -> dict[str, str | None]:
    """The driver and the first GPU. Raises AbsentError where there is none."""
    nvml = Nvml()
    if not nvml.devices:
        message = "the driver lists no GPU"
        raise AbsentError(message)
    return {"driver": nvml.driver, "gpu": nvml.devices[0].name}


def lacks(check: GpuCheck) -> str:
    """What ``check`` needs and is not installed; empty: nothing."""
    missing = check.needs and importlib.util.find_spec(check.needs) is None
    return f"{check.needs} is not installed" if missing else ""


def line(result: CheckResult) -> str:
    """One row of the table, with what is wrong below it."""
    head = f"{result.check.name:22} {result.mark:8} {result.seconds:6.1f} s"
    below = [result.skipped] if result.skipped else result.seen.problems
    return "\n".join([f"{head}  {result.check.what}", *(f"    {one}" for one in below)])


def all_judged(
    checks: Iterable[GpuCheck], directory: Path, *, jobs: int
) -> Iterable[CheckResult]:
    """Those that need the whole GPU one by one, then the others side by side."""
    chosen = list(checks)
    for check in chosen:
        if check.alone:
            yield judged(check, directory / check.name, lacks(check))
    beside = [check for check in chosen if not check.alone]
    places = [directory / check.name for check in beside]
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(judged, beside, places, map(lacks, beside))


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
                "facts": result.seen.facts,
            }
            for result in results
        },
    }


def anonymous(report: str, directory: Path) -> str:
    """``report`` without what tells this board, and where things are on this machine."""
    names = {
        str(directory): "<directory>",
        str(ROOT): "<repository>",
        **{path: "<packages>" for path in sys.path if "site" in path},
        sys.prefix: "<environment>",
    }
    for name, instead in names.items():
        report = report.replace(name, instead)
    return UUID.sub("GPU-00000000-0000-0000-0000-000000000000", report)


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=str(__doc__))
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--out", type=Path, default=Path("gpu-report.json"))
    parser.add_argument(
        "--keep", type=Path, help="directory for what runs leave behind"
    )
    parser.add_argument("--jobs", type=int, default=3, help="checks at a time")
    parser.add_argument("--list", action="store_true", help="only name the checks")
    return parser.parse_args()


def main() -> int:
    """The command."""
    options = parse()
    known = {check.name: check for check in TABLE}
    strange = [name for name in options.only if name not in known]
    if strange:
        sys.exit(f"no such check: {', '.join(strange)}; --list shows them")
    chosen = [known[name] for name in options.only] or list(TABLE)
    listed = "\n".join(f"{check.name:22} {check.what}" for check in chosen)
    if options.list:
        print(listed)
        return 0
    try:
        about: dict[str, Any] = {**driver(), "versions": versions()}
    except AbsentError as error:
        print(f"{error}.\nWith a GPU these would be done:\n{listed}")
        return 0
    print(", ".join(f"{name} {value}" for name, value in about.items()), flush=True)
    done: list[CheckResult] = []
    with tempfile.TemporaryDirectory(prefix="gpu-") as directory:
        kept = options.keep or Path(directory)
        for result in all_judged(chosen, kept.resolve(), jobs=options.jobs):
            done.append(result)
            print(line(result), flush=True)
            # After each: what was seen outlives whatever comes next.
            written = json.dumps(report(about, done), indent=1, sort_keys=True)
            options.out.write_text(f"{anonymous(written, kept.resolve())}\n")
    marks = Counter(result.mark for result in done)
    counted = ", ".join(f"{count} {name}" for name, count in sorted(marks.items()))
    print(f"\n{len(done)} checks: {counted}. The report is {options.out}")
    return 1 if marks["FAILS"] else 0


if __name__ == "__main__":
    sys.exit(main())
