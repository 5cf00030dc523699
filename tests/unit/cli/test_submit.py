"""What ``submit`` refuses, and what it tells beside the answer of the daemon."""

from pathlib import Path

from supervisor.daemon.daemon import Daemon
from tests.support.daemon_commands import GPUS, invoke


def test_who_waits_for_more_gpus_than_there_are_is_told(
    daemon: Daemon, tmp_path: Path
) -> None:
    """Waiting for its turn is not all: without a new GPU that never comes."""
    del daemon
    script = tmp_path / "train.py"
    script.touch()
    few = invoke("submit", "--name", "few", "--gpu-count", str(len(GPUS)), script)
    assert "it waits until" not in few.output
    many = invoke("submit", "--name", "many", "--gpu-count", str(len(GPUS) + 1), script)
    assert many.exit_code == 0
    counts = f"it asked for {len(GPUS) + 1} GPUs, and this box has {len(GPUS)} GPUs"
    assert many.stderr == f"{counts}: it waits until there are more\n"


def test_a_spec_that_a_daemon_refuses_is_a_bad_one(
    daemon: Daemon, tmp_path: Path
) -> None:
    """The code says so, and no command is named that would act on the daemon's state."""
    (tmp_path / "train.py").touch()
    spec = tmp_path / "job.toml"
    for refused in (
        '[snapshots]\nremote = "s3://bucket"',
        '[notify]\ncommand = ["/bin/true"]',
        '[metrics]\nlisten = "127.0.0.1:9464"',
    ):
        spec.write_text(f'script = "{tmp_path / "train.py"}"\n{refused}\n')
        done = invoke("submit", "--spec", spec)
        assert done.exit_code == 2, done.output
        assert "only `run` " in done.stderr
        assert "--state-dir" not in done.stderr
    assert not daemon.scheduler.entries.values()
