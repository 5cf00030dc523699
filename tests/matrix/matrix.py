"""``make matrix``: every supported pair of TensorFlow and Keras, each cell run.

For each pair an environment (kept below ``.matrix``), and in it: the self-test, the short
form of ``make certify``, an out-of-memory that is survived in slices, and the allocator's
operation, compiled. Writes the table of ``docs/versions.md``; ends with 1 if a cell does
not hold.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.matrix.pairs import (
    CACHE,
    PAIRS,
    ROOT,
    NoEnvironmentError,
    VersionPair,
    gently,
    made,
)
from trainers.process.environment.framework_versions import KNOWN, minor
from trainers.process.environment.user_cache import CACHE as CACHE_DIRECTORY

PAGE = ROOT / "docs" / "versions.md"
BEGIN, END = "<!-- made by make matrix -->\n", "<!-- end -->\n"
RESULTS = CACHE / "results"
HOLDS = "holds"
LITTLE_DISK = 30 << 30
"""With less, an environment is removed once its pair is done."""
SELF_TEST = (
    "import sys; from trainers.process.environment import framework_versions, self_test;"
    " sys.exit(self_test.wrong_with(framework_versions.here().all))"
)
NUMPY = "import numpy; print(numpy.__version__)"
PYTEST = ("-m", "pytest", "-q", "-W", "default", "-p", "no:cacheprovider")
PARTS: dict[str, tuple[str, ...]] = {
    "self-test": ("-c", SELF_TEST),
    "certify, short": ("-m", "tests.certify.certify", "--short"),
    "OOM, then slices": (
        *PYTEST, "tests/e2e/test_run_training.py::test_out_of_memory_for_real",
    ),
    "allocator op": (
        *PYTEST, "tests/unit/trainers/backends/tensorflow/allocator/test_allocator_probe.py",
        "-k", "fragmentation_is_that_of_the_map",
    ),
}  # fmt: skip
QUICK: dict[str, tuple[str, ...]] = {
    **PARTS,
    "certify, short": (
        *PARTS["certify, short"],
        "arrays_seeded", "tf_shuffle", "hidden_names", "followed_tape",
    ),
    "OOM, then slices": (*PARTS["OOM, then slices"], "-k", "[0]"),
}  # fmt: skip
"""Half of the rows, and one way to run out of memory: on a machine that is busy."""
ROWS = re.compile(r"^(\d+) rows, \d+ deaths, (\d+) do not hold", re.MULTILINE)


def cell(name: str, code: int, said: str) -> str:
    """What the table says of a part that ended with ``code``."""
    rows = ROWS.search(said)
    if rows is not None:
        whole, fails = int(rows[1]), int(rows[2])
        return f"{whole - fails} of {whole} rows"
    if code == 0:
        return HOLDS
    last = next((one for one in reversed(said.splitlines()) if one.strip()), name)
    return f"FAILS: {last.strip()[:200]}"


def is_whole(text: str) -> bool:
    """Whether a cell holds."""
    rows = re.fullmatch(r"(\d+) of (\d+) rows", text)
    return text == HOLDS if rows is None else rows[1] == rows[2]


def run(pair: VersionPair, parts: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    """All ``parts`` of a pair; kept, so that the table can be made of several runs."""
    began = time.monotonic()
    try:
        made(pair)
        shutil.rmtree(_cache(pair), ignore_errors=True)  # each cell is to be run
        cells = {name: _part(pair, name, part) for name, part in parts.items()}
        numpy = _said([pair.interpreter, "-c", NUMPY])[1].strip()
    except NoEnvironmentError as error:
        cells, numpy = {"self-test": f"FAILS: {error}"}, ""
    found = {"cells": cells, "numpy": numpy, "seconds": time.monotonic() - began}
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{pair.name}.json").write_text(json.dumps(found))
    if shutil.disk_usage(ROOT).free < LITTLE_DISK:
        shutil.rmtree(pair.directory, ignore_errors=True)
    return found


def _part(pair: VersionPair, name: str, part: tuple[str, ...]) -> str:
    environment = {**os.environ, CACHE_DIRECTORY: str(_cache(pair))}
    code, said = _said([pair.interpreter, *part], environment)
    (CACHE / f"{pair.name}-{name.split(maxsplit=1)[0].strip(',')}.log").write_text(said)
    found = cell(name, code, said)
    sys.stdout.write(f"{pair.name}: {name}: {found}\n")
    sys.stdout.flush()
    return found


def _cache(pair: VersionPair) -> Path:
    """What was found out, or compiled, for it alone."""
    return pair.directory / "cache"


def _said(
    command: list[str], environment: dict[str, str] | None = None
) -> tuple[int, str]:
    done = subprocess.run(
        [*gently(), *command],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    return done.returncode, done.stdout


def table(results: dict[VersionPair, dict[str, Any]]) -> str:
    """In Markdown, of the pairs that were run."""
    head = ["TensorFlow", "Keras", "Python", "NumPy", *PARTS]
    lines = [head, ["---"] * len(head)]
    for pair, found in results.items():
        cells = [found["cells"].get(name, "not run") for name in PARTS]
        row = [pair.tensorflow, pair.keras, pair.python, found["numpy"], *cells]
        lines.append(row)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def written(page: str, rows: str) -> str:
    """``page`` with the table ``rows`` between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{rows}{END}{after}"


def read_results() -> dict[VersionPair, dict[str, Any]]:
    """Of all pairs that were ever run here."""
    files = {pair: RESULTS / f"{pair.name}.json" for pair in PAIRS}
    return {
        pair: json.loads(file.read_text())
        for pair, file in files.items()
        if file.exists()
    }


def unknown(results: dict[VersionPair, dict[str, Any]]) -> list[str]:
    """Pairs that are said to be known, and have no row here that holds."""
    holds = {
        (minor(pair.tensorflow), minor(pair.keras))
        for pair, found in results.items()
        if all(map(is_whole, found["cells"].values()))
    }
    named = {
        (tensorflow, keras) for tensorflow, known in KNOWN.items() for keras in known
    }
    return [f"{one} with {other}" for one, other in sorted(named - holds)]


def oldest() -> int:
    """What CI has time for: the self-test in the oldest pair."""
    pair = PAIRS[-1]
    made(pair)
    shutil.rmtree(_cache(pair), ignore_errors=True)
    return 0 if is_whole(_part(pair, "self-test", PARTS["self-test"])) else 1


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at-once", type=int, default=1, help="pairs side by side")
    parser.add_argument("pairs", nargs="*", help="beginnings of names; all without")
    parser.add_argument("--quick", action="store_true", help="half of each pair")
    parser.add_argument("--oldest", action="store_true", help="its self-test alone")
    asked = parser.parse_args()
    if asked.oldest:
        return oldest()
    chosen = [
        pair
        for pair in PAIRS
        if not asked.pairs or any(pair.name.startswith(one) for one in asked.pairs)
    ]
    with ThreadPoolExecutor(asked.at_once) as pool:
        parts = QUICK if asked.quick else PARTS
        found = list(pool.map(run, chosen, [parts] * len(chosen)))
    results = read_results()
    PAGE.write_text(written(PAGE.read_text(), table(results)))
    fails = [
        f"{pair.name}: {name}: {text}"
        for pair, result in zip(chosen, found, strict=True)
        for name, text in result["cells"].items()
        if not is_whole(text)
    ]
    missing = [] if asked.pairs else unknown(results)
    sys.stdout.write(f"{table(results)}{len(fails)} cells do not hold {fails}\n")
    if missing:
        sys.stdout.write(f"known, and not shown here: {missing}\n")
    return 1 if fails or missing else 0


if __name__ == "__main__":
    sys.exit(main())
