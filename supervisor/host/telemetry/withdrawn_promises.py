"""All that an attempt said of why bits are not promised: its status tells the first alone."""

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from supervisor.wire.event_file import EventReader, Record, RecordKind

_DIGITS = str.maketrans("", "", "0123456789")
MOST = 20
"""Sentences that are told, at most."""


def unlike_others(sentence: str) -> str:
    """What tells ``sentence`` from others: without its numbers."""
    return sentence.translate(_DIGITS)


def withdrawn_promises(events: Iterable[Path]) -> tuple[str, ...]:
    """The sentences in the event files of attempts, in order, each once: those that differ
    in numbers alone (a seed that comes from the clock is another one in each attempt) are
    one."""
    found: dict[str, str] = {}
    for path in events:
        for sentence in _of_attempt(path):
            found.setdefault(unlike_others(sentence), sentence)
    return tuple(found.values())[:MOST]


def _of_attempt(path: Path) -> list[str]:
    told: list[str] = []
    with closing(EventReader(path)) as reader:
        while records := reader.poll():
            told += [str(one.fields["sentence"]) for one in records if _withdraws(one)]
    return told


def _withdraws(record: Record) -> bool:
    kept = record.fields.get("bits") is not False
    return (
        record.kind == RecordKind.PROMISE and not kept and "sentence" in record.fields
    )
