"""``make demo``: a training run ends well, through an out-of-memory crash and a kill.

An ordinary Keras script (``trainers/reference/digits.py``) is run with a limit on its
memory that its batch does not fit in. In the middle of an epoch of the next attempt
the training process is killed with SIGKILL. This driver only starts ``trainwarden``,
kills, looks, and tells; everything it says is read back from what the run recorded.

On a machine that is busy with other things the slices that were measured may turn out
too large by chance: then memory runs out once more, and the kill comes an attempt later.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supervisor.wire.paths import StatePaths

JOB = "digits"
CPU_MEMORY = "280MiB"
SNAPSHOT_STEPS = 10
ACCURACY_WANTED = 0.95
LIMIT_SECONDS = 420.0
SCRIPT = Path(__file__).parents[2] / "trainers" / "reference" / "digits.py"
TRAINWARDEN = str(Path(sys.executable).with_name("trainwarden"))

EXPECTED = (["device_oom", "preempted"], ["device_oom", "device_oom", "preempted"])
"""The causes of the incidents: the second where the machine is busy."""

Json = dict[str, Any]


class DemoError(Exception):
    """What did not come out as promised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the run left behind."""

    seconds: float
    killed_at: Json
    """The status just before the kill."""
    incidents: list[Json]
    accuracy: float


def ripe_for_the_kill(status: Json) -> bool:
    """In slices, in the middle of an epoch, with work done since a snapshot.

    Not in the first two epochs: there the size of the slices is still being measured.
    """
    step, inside, of = (
        status.get(key) for key in ("step", "step_in_epoch", "steps_per_epoch")
    )
    snapshot = status.get("snapshot")
    if status["attempt"] < 2 or status["state"] != "running" or not status["pid"]:
        return False
    if step is None or inside is None or of is None or snapshot is None:
        return False
    if status["epoch"] is None or status["epoch"] < 2:
        return False
    return bool(snapshot["step"] < step and 3 <= inside <= of - 3)


def accuracy_in(log: str) -> float | None:
    """The accuracy that the script printed last."""
    found = re.findall(r"^test accuracy: ([0-9.]+)$", log, flags=re.MULTILINE)
    return float(found[-1]) if found else None


def problems(outcome: Outcome) -> list[str]:
    """Everything in ``outcome`` that is not as promised."""
    found: list[str] = []
    causes = [incident["cause"] for incident in outcome.incidents]
    if causes not in EXPECTED:
        return [f"the incidents are {causes}, not device_oom and preempted"]
    *ooms, kill = outcome.incidents
    found += [
        f"the remedy for incident {oom['id']} is {oom['remedy']['kind']}"
        for oom in ooms
        if oom["remedy"]["kind"] != "microbatch"
    ]
    found += [
        f"the steps of incident {incident['id']} do not add up"
        for incident in outcome.incidents
        if incident["failed_step"] - incident["restored_step"] != incident["lost_steps"]
    ]
    if ooms[0]["restored_step"] != 0:
        found.append("the first crash was before any step, yet steps were restored")
    seen = outcome.killed_at
    if kill["failed_step"] < seen["step"]:
        found.append("the kill is recorded before the step that was seen")
    if kill["restored_step"] < seen["snapshot"]["step"]:
        found.append("a snapshot older than the newest one was restored")
    if not 0 <= kill["lost_steps"] <= SNAPSHOT_STEPS + 1:
        found.append(f"the kill cost {kill['lost_steps']} steps")
    if outcome.accuracy <= ACCURACY_WANTED:
        found.append(f"the test accuracy is {outcome.accuracy}")
    return found


def summary(outcome: Outcome, *, state: Path) -> str:
    """What happened, in plain language."""
    *ooms, kill = outcome.incidents
    told = "".join(_out_of_memory(oom) for oom in ooms)
    epoch = outcome.killed_at["epoch"] + 1
    explained = "".join(
        f"  .venv/bin/trainwarden explain {one['id']} --state-dir {state}\n"
        for one in outcome.incidents
    )
    return f"""
The script ran to its end in {outcome.seconds:.0f} s, with a test accuracy of \
{outcome.accuracy:.1%}, although:

{told}\
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
    what = "its batch" if number == 1 else "its slices"
    return f"""\
{number}. Attempt {number} ran out of memory: {what} did not fit in {CPU_MEMORY}.
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
        str(SCRIPT),
    ]
    sys.stdout.write(f"$ {' '.join(command)}\n")
    sys.stdout.flush()
    return subprocess.Popen(command)


def kill_once_ripe(run: subprocess.Popen[bytes], state: Path, until: float) -> Json:
    """Kill training at the right moment; the status just before."""
    while run.poll() is None and time.monotonic() < until:
        time.sleep(0.3)
        if not StatePaths(state).ledger.exists():
            continue
        for status in ask("status", state=state):
            if ripe_for_the_kill(status):
                os.kill(status["pid"], signal.SIGKILL)
                sys.stdout.write(f"demo: killed the training process {status['pid']}\n")
                sys.stdout.flush()
                return status
    message = "no attempt in slices ever was in the middle of an epoch"
    raise DemoError(message)


def play(state: Path) -> Outcome:
    """Start, kill, wait, and gather what is left."""
    began = time.monotonic()
    run = start(state)
    try:
        killed_at = kill_once_ripe(run, state, began + LIMIT_SECONDS)
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
    return Outcome(
        seconds=seconds, killed_at=killed_at, incidents=incidents, accuracy=accuracy
    )


def main(state: Path) -> int:
    """The demo, anew in ``state``; 0 if everything came out as promised."""
    shutil.rmtree(state, ignore_errors=True)
    try:
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
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".demo")))
