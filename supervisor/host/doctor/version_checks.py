"""Are these versions of TensorFlow and Keras supported? The answer that ``run`` gives.

It is given by the same code, in the interpreter of jobs: ``launch.py --versions``. Where
a self-test is needed, that takes some 20 s, the first time.
"""

from collections.abc import Mapping
from typing import Any

from supervisor.host.doctor.child_answer import answer_of
from supervisor.host.doctor.finding import Finding, fine, problem, warning
from supervisor.host.launch.launcher import LAUNCH

SELF_TEST_SECONDS = 900.0
ABOUT = "versions"
ON_TORCH = "PyTorch"
RESUMED = (
    "tried as a whole; calls of fit are resumed, loops of a script's own are watched and"
    " restarted only, and a batch is not sliced where memory runs out"
)
FIX = "pip install 'trainwarden[tensorflow]' brings a pair that was tried as a whole"


def findings(answer: Mapping[str, Any] | None, *, python: str) -> list[Finding]:
    """What ``launch.py --versions`` said; None: nothing in time."""
    if answer is None:
        text = f"what becomes of a script cannot be told: {python} did not answer"
        return [warning(ABOUT, text, f"try {python} {LAUNCH} --versions")]
    # Without TensorFlow, that is told elsewhere.
    found = [] if answer.get("absent") else [_pair(answer)]
    if answer.get("legacy"):
        found.append(warning("tf_keras", answer["legacy"]))
    if answer.get("torch"):
        found.append(_on_torch(answer["torch"]))
    return found


def _on_torch(answer: Mapping[str, str]) -> Finding:
    if "warning" in answer:
        return warning(ON_TORCH, answer["warning"])
    return fine(ON_TORCH, f"{answer['pair']}: {RESUMED}")


def _pair(answer: Mapping[str, Any]) -> Finding:
    if answer.get("refused"):
        return problem(ABOUT, answer["refused"], FIX)
    if answer.get("warning"):
        return warning(ABOUT, answer["warning"])
    return fine(ABOUT, f"{answer['pair']}: tried as a whole")


def examine(python: str) -> list[Finding]:
    """Findings about the versions in ``python``."""
    command = [python, str(LAUNCH), "--versions"]
    return findings(answer_of(command, seconds=SELF_TEST_SECONDS), python=python)
