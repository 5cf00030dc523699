"""A command that measures and is ended before it has."""

import os
import signal
from pathlib import Path

import pytest

from supervisor.cli.measuring import EXIT_TERMINATED, directory_for
from supervisor.cli.options import EXIT_INTERRUPTED


def ended_in(state: Path, number: int) -> None:
    """A command that gets a signal while it measures."""
    with directory_for(state, "advise-") as root:
        (root / "file").touch()
        os.kill(os.getpid(), number)
        pytest.fail("it was not ended")


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (signal.SIGTERM, EXIT_TERMINATED, "SIGTERM: ended before it was measured"),
        (signal.SIGINT, EXIT_INTERRUPTED, "interrupted before it was measured"),
    ],
)
def test_sigterm_cleans_up_as_ctrl_c_does(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], number: int, code: int, said: str
) -> None:
    """One sentence, nothing is left, and what SIGTERM did before it does again."""
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended:
        ended_in(tmp_path, number)
    assert ended.value.code == code
    assert said in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) is before


def test_what_is_measured_is_removed(tmp_path: Path) -> None:
    """Where nobody ended it, too."""
    with directory_for(tmp_path, "estimate-") as root:
        assert root.is_dir()
    assert list(tmp_path.iterdir()) == []
