"""One attempt, watched: which processes are whose."""

import os
from pathlib import Path

from supervisor.core.events import Looked
from supervisor.host.attempts import boot_id
from supervisor.host.launch_direct import DirectAttempt
from supervisor.host.log_cap import LogCap
from supervisor.host.process import Neighbour
from supervisor.host.remains import Remains
from supervisor.host.watching import Watch
from supervisor.wire.files import write_json
from supervisor.wire.paths import AttemptPaths
from tests.support.holding import holding


def watch_in(directory: Path) -> Watch:
    """Of an attempt there, whose shim is this process."""
    shim = Neighbour.of(os.getpid())
    attempt = DirectAttempt(files=AttemptPaths(directory), shim=shim)
    return Watch.over(attempt, cap=LogCap())


def test_what_it_writes_to_its_log_is_seen(tmp_path: Path) -> None:
    """A look tells how much there is, of the log as it was read in the same turn."""
    watch, told = watch_in(tmp_path), list[int | None]()
    for text in (None, "a line\n", "a longer line\n"):
        if text is not None:
            watch.attempt.paths.output.write_text(text)
        watch.read_log(now=1.0)
        looked, *_ = watch.look(now=1.0, remains=Remains(run_id="test-watching"))
        assert isinstance(looked, Looked)
        told.append(looked.look.output_bytes)
    watch.attempt.close()
    assert told == [None, 7, 14]


def test_the_shim_is_no_process_of_training(tmp_path: Path) -> None:
    """Of the tree below the shim all but the shim itself are training's."""
    shim = os.getpid()
    with holding(1) as training:
        record = {
            "shim_pid": shim, "shim_started_ticks": 1, "pid": training.pid,
            "started_ticks": 1, "boot_id": boot_id(),
        }  # fmt: skip
        write_json(tmp_path / "shimmed.json", record)
        remains, watch = Remains(run_id="test-watching"), watch_in(tmp_path)
        watch.look(now=1.0, remains=remains)
        watch.attempt.close()
    assert remains.pids >= {shim, training.pid}
    assert watch.of_training(remains) == remains.pids - {shim}
