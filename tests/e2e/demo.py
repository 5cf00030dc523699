"""``make demo``: a training run ends well, through an out-of-memory crash and a kill.

An ordinary Keras script (``trainers/reference/digits.py``) is run with a limit on its
memory that its batch does not fit in. In the middle of an epoch of the next attempt
the training process is killed with SIGKILL. This driver only starts ``trainwarden``,
kills, looks, and tells; everything it says is read back from what the run recorded.

It waits for what training says of itself, never for a time: a slow or a busy machine
(``--busy 2``: two loops beside it take the processors) only takes longer. Should measuring
the slices run out of memory once more, it fails: one restart is what is promised.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supervisor.wire.event_file import EventReader, RecordKind
from supervisor.wire.page import Page, read_page
from supervisor.wire.paths import StatePaths

JOB = "digits"
CPU_MEMORY = "280MiB"
SNAPSHOT_STEPS = 10
ACCURACY_WANTED = 0.95
MARGIN_STEPS = 3
"""The middle of an epoch is so many steps away from its ends."""
LAST_EPOCHS = 2
LOOK_SECONDS = 0.02
"""Between two looks at the page of training: a tenth of a step or less."""
LIMIT_SECONDS = 420.0
SCRIPT = Path(__file__).parents[2] / "trainers" / "reference" / "digits.py"
TRAINWARDEN = str(Path(sys.executable).with_name("trainwarden"))
SCRIPT_PACKAGES = Path(sys.prefix) / "script-packages"
"""Where ``make`` put scikit-learn, which the script needs (see pyproject.toml)."""

EXPECTED = ["device_oom", "preempted"]
"""The causes of the incidents."""
AGAIN = "measuring the slices ran out of memory again: one restart was promised"
BUSY = "while True: pass"

Json = dict[str, Any]


class DemoError(Exception):
    """What did not come out as promised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KillMoment:
    """Where training was when it was killed, by its own page."""

    attempt: int
    pid: int
    step: int
    epoch: int
    """From 0."""
    snapshot_step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOutcome:
    """What the run left behind."""

    seconds: float
    killed: KillMoment
    incidents: list[Json]
    accuracy: float


def ripe_for_the_kill(page: Page, *, settled: bool) -> bool:
    """In slices, in the middle of an epoch, with work done since a snapshot.

    ``settled``: the size of the slices is measured. Killed before, the next attempt
    would measure it again; but a run that is nearly over is not let go for that.
    """
    if page.epoch is None or page.epochs is None or (page.slices or 1) < 2:
        return False
    if page.step is None or page.step_in_epoch is None or page.steps_per_epoch is None:
        return False
    middle = MARGIN_STEPS <= page.step_in_epoch <= page.steps_per_epoch - MARGIN_STEPS
    worked = page.snapshot_step is not None and page.snapshot_step < page.step
    last_chance = page.epoch >= page.epochs - LAST_EPOCHS
    return page.epoch > 0 and middle and worked and (settled or last_chance)


class Hunt:
    """Waits for the moment at which training is to be killed, and kills it."""

    def __init__(self, state: Path) -> None:
        self._run = StatePaths(state).run(JOB, 1)
        self._events: dict[int, EventReader] = {}
        self._settled: set[int] = set()

    def look(self) -> KillMoment | None:
        """Kill the newest attempt if it is ripe; None: it is not.

        It is stopped first and looked at again: on a busy machine training may have
        gone on, or ended, since its page was read.
        """
        number = self._newest()
        page = self._page(number)
        if number < 2 or page is None or not self._ripe(number, page):
            return None
        pid = page.pid
        if pid is None or not signalled(pid, signal.SIGSTOP):
            return None
        page = self._page(number)
        if page is None or page.pid != pid or not self._ripe(number, page):
            signalled(pid, signal.SIGCONT)
            return None
        signalled(pid, signal.SIGKILL)
        return KillMoment(
            attempt=number,
            pid=pid,
            step=page.step or 0,
            epoch=page.epoch or 0,
            snapshot_step=page.snapshot_step or 0,
        )

    def _newest(self) -> int:
        number = 1
        while self._run.attempt(number + 1).root.exists():
            number += 1
        return number

    def _page(self, number: int) -> Page | None:
        return read_page(self._run.attempt(number).page)

    def _ripe(self, number: int, page: Page) -> bool:
        if number not in self._events:
            self._events[number] = EventReader(self._run.attempt(number).events)
        for record in self._events[number].poll():
            planned = str(record.fields.get("planned"))
            if record.kind == RecordKind.MICROBATCH and planned != "being measured":
                self._settled.add(number)
        return ripe_for_the_kill(page, settled=number in self._settled)


def signalled(pid: int, number: signal.Signals) -> bool:
    """Whether there was a process to send the signal to."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def accuracy_in(log: str) -> float | None:
    """The accuracy that the script printed last."""
    found = re.findall(r"^test accuracy: ([0-9.]+)$", log, flags=re.MULTILINE)
    return float(found[-1]) if found else None


def problems(outcome: DemoOutcome) -> list[str]:
    """Everything in ``outcome`` that is not as promised."""
    found: list[str] = []
    causes = [incident["cause"] for incident in outcome.incidents]
    if causes != EXPECTED:
        why = [AGAIN] if causes.count("device_oom") > 1 else []
        return [f"the incidents are {causes}, not device_oom and preempted", *why]
    oom, kill = outcome.incidents
    if oom["remedy"]["kind"] != "microbatch":
        found.append(f"the remedy for incident {oom['id']} is {oom['remedy']['kind']}")
    found += [
        f"the steps of incident {incident['id']} do not add up"
        for incident in outcome.incidents
        if incident["failed_step"] - incident["restored_step"] != incident["lost_steps"]
    ]
    if oom["restored_step"] != 0:
        found.append("the first crash was before any step, yet steps were restored")
    if kill["failed_step"] < outcome.killed.step:
        found.append("the kill is recorded before the step that was seen")
    if kill["restored_step"] < outcome.killed.snapshot_step:
        found.append("a snapshot older than the newest one was restored")
    if not 0 <= kill["lost_steps"] <= SNAPSHOT_STEPS + 1:
        found.append(f"the kill cost {kill['lost_steps']} steps")
    if outcome.accuracy <= ACCURACY_WANTED:
        found.append(f"the test accuracy is {outcome.accuracy}")
    return found


def summary(outcome: DemoOutcome, *, state: Path) -> str:
    """What happened, in plain language."""
    oom, kill = outcome.incidents
    epoch = outcome.killed.epoch + 1
    explained = "".join(
        f"  .venv/bin/trainwarden explain {one['id']} --state-dir {state}\n"
        for one in outcome.incidents
    )
    return f"""
The script ran to its end in {outcome.seconds:.0f} s, with a test accuracy of \
{outcome.accuracy:.1%}, although:

{_out_of_memory(oom)}\
{kill["attempt"]}. Attempt {kill["attempt"]} was killed with SIGKILL in the middle of \
epoch {epoch}, by this demo.
   Diagnosis: {kill["cause"]}. Remedy: {kill["remedy"]["kind"]}.
   It had done {kill["failed_step"]} steps; the next attempt went on from the snapshot \
of step {kill["restored_step"]}.
   Lost: {kill["lost_steps"]} steps, and {kill["downtime_seconds"]:.0f} s.

Where to look next:
{explained}\
  .venv/bin/trainwarden incidents --json --state-dir {state}
  .venv/bin/trainwarden run YOUR_SCRIPT.py
"""


def _out_of_memory(oom: Json) -> str:
    """One crash for want of memory, in plain language."""
    number, remedy = oom["attempt"], oom["remedy"]
    slices = "; ".join(_change(*item) for item in remedy["changes"].items())
    return f"""\
{number}. Attempt {number} ran out of memory: its batch did not fit in {CPU_MEMORY}.
   Diagnosis: {oom["cause"]}. Remedy: {remedy["kind"]} ({slices}).
   Lost: {oom["lost_steps"]} steps.
"""


def _change(name: str, change: Any) -> str:
    """One entry of a remedy's changes: {name: [before, after]}."""
    before, after = change
    return f"{name}: {before} → {after}"


def ask(*command: str, state: Path) -> list[Json]:
    """What a command of trainwarden says in JSON."""
    told = subprocess.run(
        [TRAINWARDEN, *command, "--json", "--state-dir", str(state)],
        check=True,
        capture_output=True,
        timeout=60,
    )
    answer: list[Json] = json.loads(told.stdout)
    return answer


def start(state: Path) -> subprocess.Popen[bytes]:
    """``trainwarden run``, as a person would type it."""
    command = [
        *(TRAINWARDEN, "run", "--name", JOB, "--state-dir", str(state)),
        *("--cpu-memory", CPU_MEMORY, "--snapshot-every", f"{SNAPSHOT_STEPS}steps"),
        *("--env", f"PYTHONPATH={SCRIPT_PACKAGES}"),
        str(SCRIPT),
    ]
    sys.stdout.write(f"$ {' '.join(command)}\n")
    sys.stdout.flush()
    return subprocess.Popen(command)


def kill_once_ripe(
    run: subprocess.Popen[bytes], state: Path, until: float
) -> KillMoment:
    """Kill training at the right moment; where it was then."""
    hunt = Hunt(state)
    while run.poll() is None and time.monotonic() < until:
        killed = hunt.look()
        if killed is not None:
            sys.stdout.write(f"demo: killed the training process {killed.pid}\n")
            sys.stdout.flush()
            return killed
        time.sleep(LOOK_SECONDS)
    message = "no attempt in slices ever was in the middle of an epoch"
    raise DemoError(message)


def play(state: Path) -> DemoOutcome:
    """Start, kill, wait, and gather what is left."""
    began = time.monotonic()
    run = start(state)
    try:
        killed = kill_once_ripe(run, state, began + LIMIT_SECONDS)
        code = run.wait(timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        message = f"the run did not end within {LIMIT_SECONDS:.0f} s"
        raise DemoError(message) from None
    finally:
        if run.poll() is None:
            run.terminate()
            run.wait(timeout=60)
    seconds = time.monotonic() - began
    if code != 0:
        message = f"trainwarden run ended with {code}"
        raise DemoError(message)
    (status,) = ask("status", state=state)
    log = StatePaths(state).run(JOB, 1).attempt(status["attempt"]).output
    accuracy = accuracy_in(log.read_text(errors="replace"))
    if accuracy is None:
        message = f"attempt {status['attempt']} ended without a test accuracy"
        raise DemoError(message)
    incidents = ask("incidents", state=state)
    if status["attempt"] != len(incidents) + 1:
        message = f"it took {status['attempt']} attempts for {len(incidents)} incidents"
        raise DemoError(message)
    return DemoOutcome(
        seconds=seconds, killed=killed, incidents=incidents, accuracy=accuracy
    )


@contextlib.contextmanager
def busy(loops: int) -> Generator[None]:
    """So many processes compute beside what is done within."""
    started = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(loops)]
    try:
        yield
    finally:
        for one in started:
            one.kill()
            one.wait()


def main() -> int:
    """The demo, anew in a directory; 0 if everything came out as promised."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("state", type=Path, nargs="?", default=Path(".demo"))
    parser.add_argument("--busy", type=int, default=0, help="loops that run beside it")
    asked = parser.parse_args()
    state: Path = asked.state
    shutil.rmtree(state, ignore_errors=True)
    try:
        with busy(asked.busy):
            outcome = play(state)
    except DemoError as error:
        sys.stderr.write(f"demo: {error}; see {state}\n")
        return 1
    wrong = problems(outcome)
    if wrong:
        sys.stderr.write("".join(f"demo: {sentence}\n" for sentence in wrong))
        return 1
    sys.stdout.write(summary(outcome, state=state))
    return 0


if __name__ == "__main__":
    sys.exit(main())
