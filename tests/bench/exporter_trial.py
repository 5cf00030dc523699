"""What a daemon costs that supervises real trainings, beside nvitop-exporter."""

# ruff: noqa: T201  # printing is the job

from pathlib import Path

import psutil

from supervisor.core.jobs.job_status import JobState
from supervisor.host.gpu.probe_sources import PROBE
from tests.support.boxes import BoxUnderTest, box_in
from tests.support.fake_nvml import FakeNvml
from tests.support.scraped import answers, nvitop, report_uses, until

PORT = 19_482
TRAINING = """
import time
import keras
import numpy as np

class Slowly(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.1)

model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
data = np.zeros((6400, 8), "float32"), np.zeros((6400, 1), "float32")
model.fit(*data, batch_size=64, epochs=10**6, verbose=0, callbacks=[Slowly()])
"""


def report_daemon(
    nvml: FakeNvml, directory: Path, *, jobs: int, seconds: float
) -> None:
    """Memory and processor time of the daemon, of its probe, and of nvitop-exporter."""
    with box_in(directory / "box") as box, nvitop(nvml) as (theirs, their_port):
        daemon = psutil.Process(_begun(box, nvml, jobs))
        _train(box, nvml, jobs)
        (probe,) = (one for one in daemon.children() if _is_probe(one))
        until(lambda: answers(PORT) and answers(their_port))
        print(f"\n{jobs} trainings of ten steps a second, a daemon")
        report_uses(
            {
                "probe": probe,
                "daemon": daemon,
                "nvitop-exporter": psutil.Process(theirs.pid),
            },
            {"ours": PORT, "nvitop-exporter": their_port},
            seconds=seconds,
        )
        for number in range(jobs):  # each gives its memory tier back
            box.do("stop", f"job-{number}")
            box.until(lambda job: JobState(job["state"]).ended, f"job-{number}")


def _begun(box: BoxUnderTest, nvml: FakeNvml, jobs: int) -> int:
    box.directory.mkdir()
    box.config = (
        f'[metrics]\nlisten = "127.0.0.1:{PORT}"\n[limits]\ncpu_slots = {jobs}\n'
    )
    box.environment = nvml.environment
    return box.begin().pid


def _train(box: BoxUnderTest, nvml: FakeNvml, jobs: int) -> None:
    """Let so many trainings begin, one on each GPU as far as the driver tells."""
    script = box.script(TRAINING)
    for number in range(jobs):
        box.do("submit", "--name", f"job-{number}", script)
        found: dict[str, int] = {}

        def trains(name: str = f"job-{number}", found: dict[str, int] = found) -> bool:
            found.update(box.job(name))
            return (found["step"] or 0) > 0

        until(trains)
        nvml.set({f"{number}.processes": f"{found['pid']}:{2**30}:4294967295"})


def _is_probe(process: psutil.Process) -> bool:
    return PROBE in " ".join(process.cmdline())
