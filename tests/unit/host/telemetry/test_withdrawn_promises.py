"""Why bits are not promised: every sentence of every attempt."""

from pathlib import Path

from supervisor.host.telemetry.withdrawn_promises import withdrawn_promises
from supervisor.wire.event_file import EventWriter, RecordKind


def attempt(path: Path, *sentences: str) -> Path:
    """The event file of an attempt that withdrew its promise for each of ``sentences``."""
    writer = EventWriter(path)
    writer.append(RecordKind.PROMISE, fit=0, bits=True, sentence="exact to the bit")
    for one in sentences:
        writer.append(RecordKind.PROMISE, fit=0, bits=False, sentence=one)
        writer.append(RecordKind.NOTICE, sentence="something else")
    return path


def test_all_sentences_are_told_once(tmp_path: Path) -> None:
    """A seed of the clock is told once, though it is another number in each attempt; a
    promise that was given is no reason, and an attempt without a file says nothing."""
    first = attempt(tmp_path / "1", "a thread trains", "train.py:3 seeds with 171")
    second = attempt(tmp_path / "2", "train.py:3 seeds with 172", "other data")
    told = withdrawn_promises([first, second, tmp_path / "3"])
    assert told == ("a thread trains", "train.py:3 seeds with 171", "other data")
