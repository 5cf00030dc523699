"""``make certify``: a run that was killed ends as if it had not been.

Each row trains a script undisturbed, then again through several seeded deaths, and
compares every bit the script leaves behind; a ledger of sample ids proves that no
sample was seen twice or skipped. Prints the table; ends with 1 if a row does not hold.
"""

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from supervisor.core.advisories.advisory import Advisory
from supervisor.core.advisories.rules import advise
from supervisor.core.advisories.run_evidence import RunEvidence
from supervisor.wire.event_file import EventReader, Record, RecordKind
from supervisor.wire.files import write_json
from supervisor.wire.messages.directive import EXIT_DRAINED
from supervisor.wire.paths import AttemptPaths
from supervisor.wire.records.step_evidence import StepEvidence
from tests.certify import ledger, row_rules
from tests.certify.jax_table import JAX_SHORT, JAX_TABLE
from tests.certify.places import (
    MOMENTS,
    SLOW_START_SECONDS,
    Death,
    deaths,
    moment,
    reachable,
)
from tests.certify.row_rules import PromiseLog
from tests.certify.table import SHORT, TABLE, CertifyRow
from tests.certify.torch_table import TORCH_SHORT, TORCH_TABLE
from tests.support import zygote as zygotes
from tests.support.answering import answering
from tests.support.attempts import Attempts
from tests.support.fresh import Fresh
from tests.support.standby_parent import StandbyParent
from tests.support.zygote import Zygote
from trainers.process.standby.waiting_process import COLD

HERE = Path(__file__).parent
SHARED = Path("/dev/shm")  # noqa: S108  # what the memory tier is for
TABLES = {
    "tensorflow": (TABLE, SHORT),
    "jax": (JAX_TABLE, JAX_SHORT),
    "torch": (TORCH_TABLE, TORCH_SHORT),
}
BEGAN_ANEW = COLD.partition(":")[0]
LOSSES = 4
"""How often the loss is lost, where that is tried."""
FEWEST = 3
"""Deaths that every row has to come through."""
MEMORY_EVERY, DISK_EVERY = 2, 9
"""Steps between snapshots where there are two tiers."""


@dataclass
class RowResult:
    """What came of a row."""

    row: CertifyRow
    problems: list[str] = field(default_factory=list[str])
    deaths: list[Death] = field(default_factory=list[Death])
    moments: list[str] = field(default_factory=list[str])
    """Where they came: a place of the script, or a change of a snapshot's files."""
    bits: bool = False
    told: str = ""
    replayed: int = 0
    seconds: float = 0.0
    proofs: Counter[str] = field(default_factory=Counter[str])
    """What the resumes said of themselves."""
    proof_seconds: float = 0.0
    recovered: int = 0
    stood_by: int = 0
    """How many attempts were processes that had stood by."""
    cold: list[str] = field(default_factory=list[str])
    """Why others, which had stood by as well, began anew."""


@dataclass
class CertifyTrial:
    """The attempts of one row, in a directory."""

    zygote: Zygote | StandbyParent
    row: CertifyRow
    directory: Path
    memory: Path | None = None
    """Where the memory tier lies, for a row that has one."""
    attempts: Attempts = field(init=False)
    losses: list[int] = field(default_factory=list[int])
    """Steps at which the loss is still to be taken for lost, where that is tried."""
    recovered: int = 0
    """How often it went on in its process."""
    told: list[str] = field(default_factory=list[str])
    cold: list[str] = field(default_factory=list[str])
    """Why an attempt that had stood by began anew."""
    promise: PromiseLog = field(default_factory=PromiseLog)
    proofs: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    advice: list[Advisory] = field(default_factory=list[Advisory])
    first_step_seconds: float = SLOW_START_SECONDS
    """How long the first step took, where it was told."""

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True)
        options: dict[str, Any] = {"snapshot_every_steps": self.row.every}
        options["rewind"] = self.row.rewind
        options["accept_changes"] = True  # as at each restart of its own
        if self.row.slice_size is not None:
            options |= {"slice_size": self.row.slice_size, "allow_inexact": True}
        if self.row.keeps_compilations:
            options["compilation_directory"] = str(self.directory / "compilations")
            options["compilation_quota_bytes"] = 1 << 28  # a spec's default
        if self.memory is not None:
            options["memory_directory"] = str(self.memory)
            options["memory_every_steps"] = MEMORY_EVERY
            options["snapshot_every_steps"] = DISK_EVERY
        self.attempts = Attempts(self.directory, options)

    def run(
        self, *, plain: bool = False, death: Death | None = None, **more: str
    ) -> int:
        """The next attempt; where its resume is disproved, the one after it, too."""
        before = len(self.proofs)
        code = self._run(plain=plain, death=death, prove=True, **more)
        if any(proof.get("ends") for proof in self.proofs[before:]):
            assert code == EXIT_DRAINED, self.output()
            code = self._run(plain=plain, death=death, prove=False, **more)
        return code

    def _run(
        self, *, plain: bool, death: Death | None, prove: bool, **more: str
    ) -> int:
        self.attempts.count += 1
        number = self.attempts.count
        environment = {
            "ATTEMPT": str(number),
            "SNAPSHOTS": f"{self.attempts.snapshots}:{self.memory or 'none'}",
            "TRAIL": str(self.directory / f"trail-{number}"),
            **more,
        }
        if death is not None:
            environment |= {"DIE": death.where, "HOW": death.how}
            environment["DELAY"] = repr(death.delay_seconds)
            environment["AT_LATEST"] = death.at_latest
        script = HERE / "scripts" / "row.py"
        order: dict[str, Any] = {
            "cwd": str(self.directory),
            "environment": environment,
            "output": str(self.directory / f"output-{number}.log"),
        }
        parent: Zygote | Fresh | StandbyParent = self.zygote
        if self.row.quiet:
            environment["QUIET"] = "1"
        if self.row.before is not None:
            environment["BEFORE"] = self.row.before
            parent = Fresh() if isinstance(parent, Zygote) else parent
        if plain:
            return parent.run(script=str(script), args=[self.row.name], **order)
        directive = self.attempts.directive(
            script,
            self.row.name,
            prove=prove,
            in_place=bool(self.losses),
            standby=isinstance(parent, StandbyParent),
            lose_at_steps=tuple(self.losses),
        )
        root = Path(directive.attempt_directory)
        root.mkdir()
        write_json(root / "directive.json", directive.to_json())
        with answering(AttemptPaths(root)):
            code = parent.run(launch=str(root / "directive.json"), **order)
        records = list(EventReader(root / "events.jsonl").poll())
        self.promise.hear_attempt(records)
        for record in records:
            self._heard(record)
        return code

    def _heard(self, record: Record) -> None:
        """One record of an attempt."""
        fields = record.fields
        sentence = fields.get("sentence")
        if sentence is not None and fields.get("bits") is not True:
            self.told.append(sentence)
        match record.kind:
            case RecordKind.NON_FINITE:
                self.losses = self.losses[1:]
            case RecordKind.GOES_ON:
                self.recovered += 1
            case RecordKind.PROOF:
                self.proofs.append(fields)
            case RecordKind.FIRST_STEP:
                self.first_step_seconds = fields.get("seconds") or SLOW_START_SECONDS
            case RecordKind.EVIDENCE:
                steps = StepEvidence.from_json(fields)
                self.advice += advise(RunEvidence(steps=steps))
            case RecordKind.NOTICE if str(sentence).startswith(BEGAN_ANEW):
                self.cold.append(str(sentence))
            case RecordKind.SNAPSHOT_FAILED:
                self.told.append(f"snapshot failed: {fields['because']}")
            case _:
                pass

    def places(self) -> set[str]:
        """The places that the last attempt passed; none if it failed before them."""
        path = self.directory / f"trail-{self.attempts.count}"
        if not path.exists():
            return set()
        return set(path.read_text().splitlines())

    def output(self) -> str:
        """The end of what the last attempt printed."""
        path = self.directory / f"output-{self.attempts.count}.log"
        return path.read_text(errors="replace")[-1500:]

    def result(self) -> dict[str, Any]:
        """What the script left behind."""
        found: dict[str, Any] = json.loads((self.directory / "result.json").read_text())
        return found

    def lines(self) -> list[ledger.Line]:
        """Its ledger."""
        return ledger.read(self.directory / "ledger.jsonl")


def certify(
    row: CertifyRow,
    zygote: Zygote,
    directory: Path,
    *,
    seed: int,
    in_place: bool = False,
    standby: bool = False,
) -> RowResult:
    """Run the row and compare. ``in_place``: its loss is lost, instead of its process;
    ``standby``: each process that follows one which was killed has stood by."""
    result, began = RowResult(row), time.monotonic()
    memory = tempfile.mkdtemp(prefix="certify-", dir=SHARED) if row.memory else None
    try:
        if in_place:
            _certify_in_place(result, zygote, directory, memory=memory, seed=seed)
        else:
            by = StandbyParent() if standby else zygote
            _certify(result, by, directory, memory=memory, seed=seed)
    finally:
        if memory is not None:
            shutil.rmtree(memory, ignore_errors=True)
    result.seconds = time.monotonic() - began
    return result


def _certify(
    result: RowResult,
    by: Zygote | StandbyParent,
    directory: Path,
    *,
    memory: str | None,
    seed: int,
) -> None:
    """``by``: what starts both runs."""
    row = result.row
    whole = CertifyTrial(by, row, directory / "whole")
    trail = directory / "trail"
    if whole.run(plain=row.plain, TRAIL=str(trail)) != 0:
        result.problems.append(f"undisturbed it failed: {whole.output()}")
        return
    places = trail.read_text().splitlines()
    ahead = deaths(
        places,
        seed=f"{seed} {row.name}",
        kills=row.kills,
        slow_start=whole.first_step_seconds,
    )
    inside = None if memory is None else Path(memory) / "torn"
    torn = CertifyTrial(by, row, directory / "torn", memory=inside)
    passed: set[str] = set()
    before: set[str] = set()
    while ahead:
        death, *ahead = ahead
        result.deaths.append(death)
        code = torn.run(death=death)
        if code == 0 and death.where in before:
            result.problems.append(row_rules.LATE)
            return
        before |= torn.places()
        if death.how == "TERM":
            passed |= torn.places()
        if code != (75 if death.how == "TERM" else -signal.SIGKILL):
            result.problems.append(f"{death.text}: ended with {code}: {torn.output()}")
            return
        ahead = reachable(ahead, passed)
    first = next(place for place in places if place.startswith("step:"))
    reached = (directory / "torn" / "died.txt").read_text().splitlines()
    found = [moment(place, first_step=first) for place in reached]
    result.moments = [one for one in found if one is not None]
    if len(result.moments) < FEWEST:
        result.problems.append(f"killed only {len(result.moments)} times")
    if (code := torn.run()) != 0:
        result.problems.append(f"the last attempt ended with {code}: {torn.output()}")
        return
    _compare(result, whole, torn)


def _certify_in_place(
    result: RowResult,
    zygote: Zygote,
    directory: Path,
    *,
    memory: str | None,
    seed: int,
) -> None:
    """Its loss is taken for lost at some steps: it goes on in its process, or where that
    is in doubt in another."""
    row = result.row
    whole = CertifyTrial(zygote, row, directory / "whole")
    if whole.run(plain=row.plain) != 0:
        result.problems.append(f"undisturbed it failed: {whole.output()}")
        return
    inside = None if memory is None else Path(memory) / "torn"
    torn = CertifyTrial(zygote, row, directory / "torn", memory=inside)
    draw = random.Random(f"{seed} {row.name}")  # noqa: S311  # drawn to be drawn again
    steps = sum(int(line["to"]) - int(line["from"]) for line in whole.lines())
    torn.losses = sorted(draw.sample(range(4, max(steps, 12)), k=LOSSES))
    code = 1
    for _ in range(LOSSES + 1):
        code = torn.run()
        if code != 1:
            break
    if code != 0:
        result.problems.append(f"it ended with {code}: {torn.output()}")
        return
    result.recovered = torn.recovered
    _compare(result, whole, torn)


def _compare(result: RowResult, whole: CertifyTrial, torn: CertifyTrial) -> None:
    row, expected, found = result.row, whole.result(), torn.result()
    if isinstance(torn.zygote, StandbyParent):
        result.stood_by, result.cold = torn.zygote.stood_by, torn.cold
    lines = [] if row.quiet else torn.lines()
    different = [key for key in expected if expected[key] != found.get(key)]
    result.bits = not different
    result.replayed = ledger.replayed(lines)
    result.proofs = Counter(str(proof["result"]) for proof in torn.proofs)
    result.proof_seconds = sum(p.get("seconds") or 0.0 for p in torn.proofs)
    result.problems += row_rules.of_promise(row, torn.promise, bits=result.bits)
    result.problems += row_rules.of_proofs(
        row, torn.proofs, bits=result.bits, required=bool(result.deaths)
    )
    if not row.quiet:
        result.problems += ledger.problems(
            row, lines, whole=whole.lines(), seen=found["seen"]
        )
    if different and row.why_no_bits is None:
        result.problems.append(f"not the same: {', '.join(different)}")
    result.problems += [
        f"advice for a healthy script: {one.sentence}"
        for one in (*whole.advice, *torn.advice)
        if one.kind not in row.advice
    ]
    sentence = row.why_no_bits or row.told
    if sentence is not None:
        said = [told for told in torn.told if sentence in told]
        result.told = said[0] if said else ""
        if not said:
            result.problems.append(f"nothing was told of {sentence!r}: {torn.told}")
    else:
        result.problems += [t for t in torn.told if "snapshot failed" in t]


def show(result: RowResult) -> None:
    """One row of the table."""
    row = result.row
    bits = "same bits" if result.bits else "not bits"
    state = "HOLDS" if not result.problems else "FAILS"
    print(
        f"{state}  {row.name:26} {bits:9}  ids {row.ledger}  {result.replayed:3} steps"
        f" again  {result.seconds:5.1f} s  {row.features}"
        f"{'; two tiers' if row.memory else ''}"
    )
    if result.recovered or not result.deaths:
        print(f"       went on in its process {result.recovered} times")
    print(
        f"       {len(result.deaths)} deaths: {', '.join(d.text for d in result.deaths)}"
    )
    if result.stood_by:
        anew = (
            f"; {len(result.cold)} began anew: {result.cold[0]}" if result.cold else ""
        )
        print(f"       {result.stood_by} attempts had stood by{anew}")
    if result.proofs:
        print(f"       proofs: {dict(result.proofs)}, {result.proof_seconds:.2f} s")
    if result.told:
        print(f"       told: {result.told}")
    for problem in result.problems:
        print(f"       PROBLEM {problem}")
    sys.stdout.flush()


TRIES = 3
"""At most, of a row that a busy moment has spoilt each time."""


def run_rows(
    rows: list[CertifyRow],
    parent: Zygote,
    *,
    seed: int,
    keep: Path | None = None,
    in_place: bool = False,
    standby: bool = False,
) -> list[RowResult]:
    """Each of ``rows`` in turn, shown as it comes."""
    results: list[RowResult] = []
    with tempfile.TemporaryDirectory(prefix="certify-") as scratch:
        for row in rows:
            directory = (keep or Path(scratch)) / row.name
            how = {"in_place": in_place, "standby": standby}
            tries: list[RowResult] = []
            while not tries or (
                row_rules.by_chance(tries[-1].problems) and len(tries) < TRIES
            ):
                shutil.rmtree(directory, ignore_errors=True)
                elsewhere = seed + len(tries)
                tries.append(certify(row, parent, directory, seed=elsewhere, **how))
            results.append(tries[-1])
            show(results[-1])
    return results


def short(rows: list[CertifyRow]) -> list[CertifyRow]:
    """``rows`` with fewer deaths: what the tests have time for."""
    return [replace(row, kills=min(row.kills, 3)) for row in rows]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of where to kill")
    parser.add_argument("--backend", choices=list(TABLES), default="tensorflow")
    parser.add_argument("--short", action="store_true", help="only a few rows")
    parser.add_argument(
        "--in-place",
        action="store_true",
        help="lose the loss of each run, and let it go on in its process",
    )
    parser.add_argument(
        "--standby",
        action="store_true",
        help="each attempt after the first has stood by (restart.standby)",
    )
    parser.add_argument("--keep", type=Path, help="leave everything in this directory")
    parser.add_argument("rows", nargs="*", help="names of rows; all without")
    asked = parser.parse_args()
    table, shorter = TABLES[asked.backend]
    names = asked.rows or (shorter if asked.short else [row.name for row in table])
    rows = [row for row in table if row.name in names]
    if asked.short:
        rows = short(rows)
    with zygotes.zygote(asked.backend) as parent:
        results = run_rows(
            rows,
            parent,
            seed=asked.seed,
            keep=asked.keep,
            in_place=asked.in_place,
            standby=asked.standby,
        )
    if asked.in_place:
        return summary_in_place(results, wanted=len(names))
    if asked.standby:
        stood_by, cold = (
            sum(v.stood_by for v in results),
            sum(len(v.cold) for v in results),
        )
        print(f"{stood_by} attempts had stood by, {cold} of them began anew")
        if not stood_by:
            return 1
    return summary(results, wanted=len(names), whole=not (asked.rows or asked.short))


def summary_in_place(results: list[RowResult], *, wanted: int) -> int:
    """Print what came of them all; the exit code."""
    failed = [one.row.name for one in results if one.problems]
    went = [one for one in results if one.recovered]
    times = sum(one.recovered for one in results)
    print(f"{len(results)} rows, {len(failed)} do not hold {failed}")
    print(f"{len(went)} of them went on in their process, {times} times in all")
    return 1 if failed or not went or len(results) < wanted else 0


def summary(results: list[RowResult], *, wanted: int, whole: bool) -> int:
    """Print what came of them all; the exit code.

    A ``whole`` table that met one of the moments never has not shown what it should.
    """
    failed = [one.row.name for one in results if one.problems]
    killed = sum(len(v.deaths) for v in results)
    print(f"{len(results)} rows, {killed} deaths, {len(failed)} do not hold {failed}")
    met = Counter(one for result in results for one in result.moments)
    print("deaths " + ", ".join(f"{name}: {met[name]}" for name in MOMENTS.values()))
    missed = [name for name in MOMENTS.values() if whole and not met[name]]
    if missed:
        print(f"never met: {', '.join(missed)}")
    return 1 if failed or missed or len(results) < wanted else 0


if __name__ == "__main__":
    sys.exit(main())
