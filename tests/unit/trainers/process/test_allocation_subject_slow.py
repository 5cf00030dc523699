"""What memory was asked for when it ran out: the kinds that ``test_asked_for`` leaves."""

from pathlib import Path

import pytest

from tests.support.memory_scripts import ASKED_FOR
from tests.support.oom import told_as_what_it_is
from tests.unit.trainers.process.test_allocation_subject import QUICK

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", [kind for kind in ASKED_FOR if kind not in QUICK])
def test_what_ran_out_is_told(tmp_path: Path, kind: str) -> None:
    """The cause is memory, never the script, and it is known what for."""
    told_as_what_it_is(tmp_path, kind)
