"""What somebody can do about it, where the script itself says what is missing."""

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.advice import ADVICE
from supervisor.core.diagnosis.diagnose import diagnose
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.examination import examined
from tests.support.evidence import crash, ours


def advice(exception: str, message: str) -> str:
    """For a script that ended with it before its first step."""
    evidence = Evidence(exit=ours(1), crash=crash(exception, message))
    return examined(diagnose(evidence), evidence).advice


def test_a_module_that_is_not_there() -> None:
    """Another interpreter may have it."""
    said = advice("builtins.ModuleNotFoundError", "No module named 'keras'")
    assert "--python PATH" in said


def test_a_script_inside_a_package() -> None:
    """It is run as a module of that."""
    text = "attempted relative import with no known parent package"
    assert "run -m package.script" in advice("builtins.ImportError", text)


def test_any_other_error() -> None:
    """The usual."""
    assert advice("builtins.KeyError", "'lr'") == ADVICE[Cause.USER_ERROR]
