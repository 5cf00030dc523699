"""Whether a snapshot of the middle of a ``fit`` belongs to the call that begins."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from supervisor.wire.reasons import RefusalReason
from trainers.fit.resume.snapshot_match import OTHER_DATA, belongs, check_data
from trainers.snapshots.run_progress import script_hash

DATA = {"kind": "arrays", "rows": ["1f"]}
LOCAL = {"batch": 32, "data": DATA}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The script that runs, and wrote the snapshot."""
    path = tmp_path / "train.py"
    path.write_text("model.fit(x)")
    return path


def asked(
    script: Path,
    *,
    batch: int | None,
    changed: bool = False,
    said: list[str] | None = None,
) -> tuple[bool, list[str]]:
    """The answer for a snapshot of batch 32, and what was told."""
    told: list[str] = [] if said is None else said
    attempt = attempt_of(script, told)
    wrote = "sha256:0" if changed else script_hash(attempt)
    taken: Any = SimpleNamespace(manifest=SimpleNamespace(state={"script": wrote}))
    return belongs(taken, LOCAL, attempt=attempt, batch=batch), told


def attempt_of(script: Path, told: list[str], *, accept: bool = False) -> Any:
    """One that tells into ``told``."""
    return SimpleNamespace(
        directive=SimpleNamespace(script=str(script), accept_changes=accept),
        script=script.read_bytes(),
        say=lambda _kind, *, reason, sentence: told.extend([reason, sentence]),
        notice=told.append,
    )


def test_the_same_batch_and_data_belong(script: Path) -> None:
    """Nothing is told; the script may have changed elsewhere."""
    for changed in (False, True):
        assert asked(script, batch=32, changed=changed) == (True, [])


def test_a_script_that_tries_several_batches_comes_by_its_own_again(
    script: Path,
) -> None:
    """The snapshot is of a later try of the same call: this one begins anew."""
    assert asked(script, batch=64) == (False, [])


def test_a_batch_that_nobody_knows_yet_is_no_other(script: Path) -> None:
    """It was known when the snapshot was taken: its first batch had been drawn."""
    assert asked(script, batch=None, changed=True) == (True, [])


def test_another_batch_in_a_changed_script_is_refused(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A person changed it: their choice is not overridden, nor their snapshot lost."""
    said: list[str] = []
    with pytest.raises(SystemExit) as ended:
        asked(script, batch=64, changed=True, said=said)
    assert ended.value.code == 78
    assert said[0] == RefusalReason.BATCH_CHANGED
    assert "its batch is 64, that of the snapshot 32" in capsys.readouterr().err


def test_other_data_are_refused_unless_that_is_allowed(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What differs is said, and what to do; who goes on is promised nothing."""
    told: list[str] = []
    other = {**DATA, "rows": ["2f"]}
    asks, accepts = attempt_of(script, []), attempt_of(script, told, accept=True)
    with pytest.raises(SystemExit):
        check_data(asks, LOCAL, other)
    assert "--accept-changes goes on with them" in capsys.readouterr().err
    assert check_data(accepts, LOCAL, other) == OTHER_DATA
    assert "samples have other values (array 1 of 1" in told[0]
    assert "2f" not in told[0]
    assert check_data(asks, LOCAL, dict(DATA)) is None
    assert check_data(asks, {"batch": 32}, {}) is None
