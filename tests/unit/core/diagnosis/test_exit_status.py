"""Exit statuses and signals, as people write them and as they are called."""

import pytest

from supervisor.core.diagnosis.exit_status import parse_status, signal_name


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("1", (1, None)),
        ("137 (Killed)", (137, None)),
        ("-9", (None, 9)),
        ("SIGABRT (kernel restarted)", (None, 6)),
        ("0:125", (125, None)),
        ("0:9", (None, 9)),
        ("2:0", (2, None)),
        ("SIGNOT", None),
        ("soon", None),
        ("255", (255, None)),
        ("256", None),
        ("0:256", None),
        ("-64", (None, 64)),
        ("-65", None),
    ],
)
def test_exit_statuses_as_people_write_them(
    text: str, status: tuple[int | None, int | None] | None
) -> None:
    """Codes, signals, subprocess's negatives, Slurm's pairs."""
    assert parse_status(text) == status


def test_signals_have_names() -> None:
    """Those of Linux; others keep their number."""
    assert signal_name(11) == "SIGSEGV"
    assert signal_name(63) == "signal 63"
