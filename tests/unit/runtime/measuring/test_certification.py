"""What is said while a script is certified."""

from supervisor.core.text.log_level import LogLevel
from supervisor.host.telemetry.attempt_news import UNPROMISED
from supervisor.runtime.measuring.certification import WithdrawnOnce


def test_promises_are_withdrawn_once_for_all_runs() -> None:
    """Each attempt of a script that is seeded by the clock says so, of another number: the
    verdict is not to stand below a page of it. What else is said is said each time."""
    told: list[str] = []

    def say(text: str, /, *, level: LogLevel = LogLevel.INFO) -> None:
        assert level is LogLevel.WARNING
        told.append(text)

    once = WithdrawnOnce(say)
    said = [
        f"{UNPROMISED}: train.py:3 seeds with 17",
        f"{UNPROMISED}: train.py:3 seeds with 23",
        f"{UNPROMISED}: a thread trains",
        "attempt 1 started",
        "attempt 1 started",
    ]
    for sentence in said:
        once(sentence, level=LogLevel.WARNING)
    assert told == [said[0], *said[2:]]
