"""What the files of an attempt tell of its end."""

import pytest

from supervisor.core.diagnosis.exit_status import record_of
from supervisor.runtime.attempts.evidence_collector import found_no_room
from supervisor.wire.messages.directive import EXIT_NO_ROOM


@pytest.mark.parametrize(
    ("code", "launched", "found"),
    [
        (EXIT_NO_ROOM, False, True),
        (EXIT_NO_ROOM, True, False),
        (1, False, False),
        (None, False, False),
    ],
)
def test_no_room_is_told_by_the_exit_status(
    code: int | None, *, launched: bool, found: bool
) -> None:
    """Of ours: once the script has begun, it is that of the script."""
    record = record_of(code, 9 if code is None else None)
    assert found_no_room(record, launched=launched) is found
    assert not found_no_room(None, launched=launched)
