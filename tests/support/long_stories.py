"""The event file of an attempt that trained for long."""

from pathlib import Path

from supervisor.wire.event_file import POLL_BYTES, Record, RecordKind, encode


def long_story(path: Path, *, polls: int = 2) -> int:
    """Write what takes ``polls`` looks and a bit to read: the first of them sees a call of
    ``fit`` begin, the last how it ended and the script finished. How many snapshots there
    are."""
    snapshot = encode(
        Record(
            RecordKind.SNAPSHOT, 7, {"tier": "memory", "step": 1, "because": "x" * 9000}
        )
    )
    count = polls * POLL_BYTES // len(snapshot) + 1
    began = [Record(RecordKind.LAUNCHED, 1), Record(RecordKind.FIT_BEGAN, 2)]
    ended = [
        Record(RecordKind.FIT_ENDED, 8),
        Record(RecordKind.FINISHED, 9, {"exit_code": 0}),
    ]
    first, last = (b"".join(map(encode, records)) for records in (began, ended))
    path.write_bytes(first + snapshot * count + last)
    return count
