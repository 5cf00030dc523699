"""The module that is not there: its name, and how it comes there."""

import pytest

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.advice import ADVICE, MISSING_MODULE
from supervisor.core.diagnosis.diagnose import diagnose, diagnose_log
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.not_found import missing_module, module_advice
from tests.support.evidence import crash, ours, seen

LINE = "ModuleNotFoundError: No module named 'transformers'"
TRACEBACK = f'Traceback (most recent call last):\n  File "a.py", line 1\n{LINE}\n'


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (LINE, "transformers"),
        (f"{LINE[:-1]}.models'", "transformers.models"),
        ("KeyError: \"No module named 'a'\"", None),
    ],
)
def test_which_module(text: str, name: str | None) -> None:
    """As Python says it."""
    assert missing_module(text) == name


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("transformers", "`pip install transformers`"),
        ("cv2", "`pip install opencv-python`"),
        ("a.b", "a version of 'a' there that has it (`pip install a`)"),
    ],
)
def test_what_to_install(name: str, told: str) -> None:
    """The package, whose name may be another; or another interpreter."""
    advice = module_advice(name)
    assert advice.startswith(f"The module '{name}' is not there")
    assert told in advice
    assert "--python PATH" in advice
    assert module_advice(None) == MISSING_MODULE


def test_a_log_and_a_crash_name_it() -> None:
    """A log of anybody's, and the end of an attempt of ours; another error of the script
    has the usual advice."""
    found = diagnose_log(seen(TRACEBACK))
    assert (found.cause, found.advice) == (
        Cause.USER_ERROR,
        module_advice("transformers"),
    )
    report = crash("builtins.ModuleNotFoundError", LINE.partition(": ")[2])
    ended = diagnose(Evidence(exit=ours(1), crash=report))
    assert "'transformers'" in ended.advice
    other = diagnose_log(seen("KeyError: 'lr'\n"))
    assert other.advice == ADVICE[Cause.USER_ERROR]
