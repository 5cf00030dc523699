"""SIGTERM that finds a child which was forked a moment ago."""

from pathlib import Path

from supervisor.wire.event_file import RecordKind
from tests.support.attempts import Attempts

SCRIPT = """
import os, signal

handler = signal.getsignal(signal.SIGTERM)
child = os.fork()
if child == 0:
    handler(signal.SIGTERM, None)  # as if it came before the child forgot it
    os._exit(1)
_, status = os.waitpid(child, 0)
print("child", os.waitstatus_to_exitcode(status))
"""


def test_a_child_does_not_drain_for_its_parent(tmp_path: Path) -> None:
    """It dies of the signal, and nobody says that the state was saved."""
    attempts = Attempts(tmp_path)
    outcome = attempts.run(attempts.script(SCRIPT))
    assert outcome.code == 0, outcome.err
    assert outcome.out == "child -15\n"
    assert outcome.of(RecordKind.DRAINED) == []
    assert len(outcome.of(RecordKind.FINISHED)) == 1
