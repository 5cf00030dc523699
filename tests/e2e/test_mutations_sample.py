"""The short version of ``make certify-mutations``: three things forgotten, each seen."""

from pathlib import Path

import pytest

from tests.certify.mutations import CAUGHT, HARMLESS, summary, try_all
from tests.support.zygote import Zygote

FORGOTTEN = ("variable 1", "position drawn", "hidden values Average value")


@pytest.mark.parametrize(
    "forgotten", [FORGOTTEN[:1], pytest.param(FORGOTTEN[1:], marks=pytest.mark.slow)]
)
def test_the_proof_sees_what_was_forgotten(
    tmp_path: Path, zygote: Zygote, forgotten: tuple[str, ...]
) -> None:
    """A weight, a place in the data, and what a class of the script's counts."""
    found = try_all(zygote, tmp_path / "run", only=forgotten)
    assert found == dict.fromkeys(forgotten, CAUGHT)


def test_a_crash_is_no_catch() -> None:
    """It says nothing of the proof; and where nothing is caught, nothing was shown."""
    assert summary({"fit": [CAUGHT, HARMLESS]}) == 0
    assert summary({"fit": [CAUGHT, "CRASHED (exit code 1, begun)"]}) == 1
    assert summary({"fit": [CAUGHT, "MISSED (proved)"]}) == 1
    assert summary({"fit": [HARMLESS]}) == 1
