"""One attempt, watched: which processes are whose."""

import os
from pathlib import Path

from supervisor.host.attempts import boot_id
from supervisor.host.launch_direct import DirectAttempt
from supervisor.host.log_cap import LogCap
from supervisor.host.process import Neighbour
from supervisor.host.remains import Remains
from supervisor.host.watching import Watch
from supervisor.wire.files import write_json
from supervisor.wire.paths import AttemptPaths
from tests.support.holding import holding


def test_the_shim_is_no_process_of_training(tmp_path: Path) -> None:
    """Of the tree below the shim all but the shim itself are training's."""
    shim = os.getpid()
    with holding(1) as training:
        record = {
            "shim_pid": shim, "shim_started_ticks": 1, "pid": training.pid,
            "started_ticks": 1, "boot_id": boot_id(),
        }  # fmt: skip
        write_json(tmp_path / "shimmed.json", record)
        attempt = DirectAttempt(files=AttemptPaths(tmp_path), shim=Neighbour.of(shim))
        remains = Remains(run_id="test-watching")
        watch = Watch.over(attempt, cap=LogCap())
        watch.look(now=1.0, remains=remains)
        attempt.close()
    assert remains.pids >= {shim, training.pid}
    assert watch.of_training(remains) == remains.pids - {shim}
