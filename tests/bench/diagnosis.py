"""How often the diagnosis is right, how fast a log is read, how soon it decides.

``python -m tests.bench.diagnosis [CASES.jsonl …]`` from the repository's root, or
``make bench-diagnosis CORPUS=CASES.jsonl`` with more cases than those of the repository.
A case is one JSON object a line: ``text``, ``cause``, and if known ``exit``, ``also``
(other right answers), ``id``.

It ends with 1 where fewer than 97 % of a corpus are right, or one of its benign cases
(cause ``none``) is given another cause.

Speeds are of CPU time, ours and grep's, in turns: both read from memory, and another
load on the machine should not count.
"""

# ruff: noqa: T201  # printing is the job

import contextlib
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from supervisor.core.diagnosis.diagnose import diagnose, diagnose_log
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.exit_status import parse_status, record_of
from supervisor.core.diagnosis.log_scanner import SIGNS, LogScanner, scan
from supervisor.core.diagnosis.signatures.all_rows import SIGNATURES
from supervisor.host.ledger.ledger import Ledger
from supervisor.host.telemetry.log_follower import LogFollower
from supervisor.host.telemetry.text_search import holds
from supervisor.wire.paths import StatePaths

FEWEST_RIGHT = 0.97
"""Part of a corpus that has to be right."""
ROOT = Path(__file__).parents[2]
OWN = ROOT / "tests" / "unit" / "core" / "diagnosis" / "corpus"
LOG_BYTES = 100_000_000
ROUNDS = 5


def read_cases(path: Path) -> list[dict[str, Any]]:
    """The cases in ``path``. Raises OSError, ValueError."""
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def answer(case: dict[str, Any], *, with_exit: bool) -> str:
    """The cause that the diagnosis names."""
    status = case.get("exit")
    known = parse_status(str(status)) if with_exit and status is not None else None
    evidence = None
    if known is not None:
        evidence = Evidence(exit=record_of(*known), finished=known == (0, None))
    return diagnose_log(scan(case["text"].encode()), evidence=evidence).cause.value


def report_accuracy(cases: list[dict[str, Any]], *, with_exit: bool) -> bool:
    """Print the share of right answers, what is wrong, and the confusion table.

    True: enough is right, and nothing benign was taken for a failure.
    """
    answers = [answer(case, with_exit=with_exit) for case in cases]
    pairs = list(zip(cases, answers, strict=True))
    wrong = [
        (case, given)
        for case, given in pairs
        if given not in {case["cause"], *case.get("also", [])}
    ]
    alarms = sum(case["cause"] == "none" for case, _ in wrong)
    benign = sum(case["cause"] == "none" for case in cases)
    right = len(cases) - len(wrong)
    mode = "with the exit status" if with_exit else "from the text alone"
    print(f"\n{right}/{len(cases)} right ({100 * right / len(cases):.1f} %) {mode}")
    print(f"{alarms} false alarms on {benign} benign cases")
    for case, given in wrong:
        print(f"  wrong: {case.get('id', '?')}: {case['cause']}, answered {given}")
    print(f"\n{'cause':26} {'cases':>5} {'same':>5} {'also':>5} {'wrong':>5}  answers")
    for cause in sorted({case["cause"] for case in cases}):
        mine = [(case, given) for case, given in pairs if case["cause"] == cause]
        same = sum(given == cause for _, given in mine)
        bad = sum(case in [other for other, _ in wrong] for case, _ in mine)
        others = Counter(given for _, given in mine if given != cause)
        shown = ", ".join(f"{given} {count}" for given, count in others.items())
        row = f"{cause:26} {len(mine):5} {same:5} {len(mine) - same - bad:5} {bad:5}"
        print(f"{row}  {shown}")
    return right >= FEWEST_RIGHT * len(cases) and not alarms


def training_log(size: int) -> bytes:
    """Lines of a healthy training: a Keras bar, library chatter, printed steps."""
    lines: list[str] = []
    for number in range(20_000):
        loss = 1 / (number + 1)
        lines.append(
            f" {number}/20000 ━━━━━━━━━━━━━━━━━━━━ 3s 17ms/step - loss: {loss:.4f}\n"
            if number % 3
            else f"2026-11-21 10:00:{number % 60:02}.1: I tensorflow/core/common_runtime"
            f"/gpu/gpu_device.cc:1045] step {number} at {loss:.3f} images a second\n"
        )
    block = "".join(lines).encode()
    return (block * (size // len(block) + 1))[:size]


def screaming_log(size: int) -> bytes:
    """Every line has words of a failure, and no two are alike: the worst case."""
    words = "memory Error: failed CUDA_ERROR_ NCCL out of memory retry status".split()  # noqa: SIM905 - words
    lines: list[str] = []
    for number in range(100_000):
        picked = [words[(number >> shift) % len(words)] for shift in range(8)]
        lines.append(f"{' '.join(picked)} {number:x} {number * 7919:x}\n")
    block = "".join(lines).encode()
    return (block * (size // len(block) + 1))[:size]


def seconds(work: Callable[[], object]) -> float:
    """Time that ``work`` takes, once."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU time that ``work`` takes, that of its child processes included."""

    def used() -> float:
        times = os.times()
        return times.user + times.system + times.children_user + times.children_system

    start = used()
    work()
    return used() - start


def feed(data: bytes) -> None:
    """Scan ``data`` as it would arrive: a MiB at a time."""
    scanner = LogScanner(holds=holds)
    for at in range(0, len(data), 1 << 20):
        scanner.feed(data[at : at + (1 << 20)])
    scanner.findings()


def grep(path: Path, texts: Path) -> None:
    """The same text, looked for by ``grep -F -f``: into a pipe, since grep stops at
    the first match where its output goes to /dev/null."""
    command = ["grep", "-c", "-F", "-f", str(texts), str(path)]
    environment = {**os.environ, "LC_ALL": "C"}
    subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=False)


def written(path: Path, texts: Iterable[bytes]) -> Path:
    """A file with a text a line."""
    path.write_bytes(b"".join(text + b"\n" for text in texts))
    return path


def report_speed(directory: Path) -> None:
    """Print throughput side by side with grep, which is given what the scanner looks
    for between head and tail of a log, and then what every row of the table needs."""
    anchors = sorted({one for row in SIGNATURES for one in row.anchors})
    few = written(directory / "signs", SIGNS)
    all_of_them = written(directory / "anchors", (one.encode() for one in anchors))
    print(
        f"\nlog of 100 MB, CPU seconds; grep -F -f with {len(SIGNS)} signs, and with the"
        f" {len(anchors)} anchors of all rows\n"
        f"{'':16} {'scan':>6} {'MB/s':>6} {'grep':>6} {'ratio':>6} {'grep all':>9}"
        f" {'ratio':>6}"
    )
    for name, data in (
        ("healthy", training_log(LOG_BYTES)),
        ("every line odd", screaming_log(LOG_BYTES)),
    ):
        path = directory / "output.log"
        path.write_bytes(data)
        ours, one, other = (
            statistics.median(column)
            for column in zip(
                *(
                    [
                        cpu_seconds(functools.partial(feed, data)),
                        cpu_seconds(functools.partial(grep, path, few)),
                        cpu_seconds(functools.partial(grep, path, all_of_them)),
                    ]
                    for _ in range(ROUNDS)
                ),
                strict=True,
            )
        )
        speed = LOG_BYTES / 1e6 / ours
        print(
            f"{name:16} {ours:6.2f} {speed:6.0f} {one:6.2f} {ours / one:6.2f}"
            f" {other:9.2f} {ours / other:6.2f}"
        )


def report_decision(directory: Path) -> None:
    """Print the time from the last byte of a 100 MB log to the decision."""
    path = directory / "growing.log"
    path.write_bytes(training_log(LOG_BYTES))
    follower = LogFollower(path)
    while follower.poll():
        pass
    with path.open("ab") as log:
        log.write(
            b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"
        )
    found: list[str] = []

    def decide() -> None:
        evidence = Evidence(exit=record_of(1, None), log=follower.findings())
        found.append(diagnose(evidence).cause.value)

    print(f"\ndecision after exit: {1000 * seconds(decide):.1f} ms ({found[0]})")
    whole = seconds(lambda: LogFollower(path).findings())
    print(f"the whole file at once: {whole:.2f} s")


WRITES = """
import sys, time
sys.path.insert(0, {root!r})
from tests.bench.diagnosis import training_log

block = training_log(10**6)
for _ in range({size} // len(block)):
    sys.stdout.buffer.write(block)
    sys.stdout.buffer.flush()
    time.sleep({pause})
raise ValueError("the end")
"""


def report_real_decision(directory: Path) -> None:
    """Print how long after the end of a real run's process its incident was decided:
    after 100 MB that came steadily, and after 100 MB at once."""
    for pause in (0.02, 0.0):
        place = directory / f"real-{pause}"
        place.mkdir()
        script = place / "train.py"
        root = str(ROOT)
        script.write_text(WRITES.format(root=root, size=LOG_BYTES, pause=pause))
        command = [
            sys.executable, "-c", "from supervisor.cli.entry import main; main()", "run",
        ]  # fmt: skip
        state = place / "state"
        subprocess.run(
            [*command, "--state-dir", str(state), str(script)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        record = json.loads(next(state.rglob("exit.json")).read_bytes())
        with contextlib.closing(Ledger(StatePaths(state).ledger)) as ledger:
            ((at,),) = ledger.rows(tuple, "SELECT at FROM incidents")
        ended = record["ended_ns"] / 1e9 + time.time() - time.monotonic()
        lasted = (record["ended_ns"] - record["started_ns"]) / 1e9
        print(
            f"a real run, {LOG_BYTES / 1e6 / lasted:.0f} MB/s of log: decided"
            f" {1000 * (at - ended):.0f} ms after its process had ended"
        )


def report_corpora(corpora: Mapping[str, Sequence[Path]]) -> list[str]:
    """Print how well the cases of each corpus are judged; the corpora that fail."""
    failed: list[str] = []
    for name, paths in corpora.items():
        cases = [case for path in paths for case in read_cases(path)]
        print(f"\n--- {name}, {len(cases)} cases")
        passed = [report_accuracy(cases, with_exit=known) for known in (False, True)]
        if not all(passed):
            failed.append(name)
    return failed


def own_corpora() -> dict[str, list[Path]]:
    """The repository's, by name; the batches of fresh texts are one."""
    corpora: dict[str, list[Path]] = {}
    for path in sorted(OWN.glob("*.jsonl")):
        corpora.setdefault(path.stem.partition("-")[0], []).append(path)
    return corpora


def main(named: Sequence[str]) -> int:
    """Print all tables, of the files that were ``named`` and of ours; the exit status."""
    failed = report_corpora({one: [Path(one)] for one in named} | own_corpora())
    with tempfile.TemporaryDirectory() as directory:
        report_speed(Path(directory))
        report_decision(Path(directory))
        report_real_decision(Path(directory))
    for name in failed:
        print(f"\nFAILED: {name}: less than 97 % right, or a false alarm")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
