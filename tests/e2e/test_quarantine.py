"""A GPU that is kept out of use, and a run that begins before the driver has spoken."""

import contextlib
from pathlib import Path

import pytest

from supervisor.core.lifecycle.effects import Quarantine
from supervisor.host.ledger.ledger import Ledger
from supervisor.wire.paths import StatePaths
from tests.support.command import Trainwarden
from tests.support.fake_nvml import FakeNvml


@pytest.mark.parametrize(
    "asked", [pytest.param((), marks=pytest.mark.slow), ("--gpus", "0,1")]
)
def test_it_is_kept_from_the_first_attempt(
    trainwarden: Trainwarden,
    library: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    asked: tuple[str, ...],
) -> None:
    """The driver is waited for: which GPU has which number, it alone knows."""
    fake = FakeNvml(library, tmp_path / "script")
    fake.gpus(2)
    for name in ("LD_LIBRARY_PATH", "FAKE_NVML"):
        monkeypatch.setenv(name, fake.environment[name])
    state = trainwarden.state
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.closing(Ledger(StatePaths(state).ledger)) as ledger:
        run = ledger.begin_run(
            run_id="r", job="old", script="s", script_hash="h", seed=1, spec={}, now=1.0
        )
        failed = Quarantine(gpus=("GPU-00000000-fake",), attempt=1, because="Xid 79")
        ledger.quarantine(run.id, failed, now=2.0)
    text = "import os; print(os.environ.get('CUDA_VISIBLE_DEVICES'), flush=True)\n"
    script = trainwarden.script(text)
    done = trainwarden("run", "--name", "new", *asked, script)
    assert done.returncode == 0, done.stdout
    assert trainwarden("logs", "new").stdout == "GPU-00000001-fake\n"
