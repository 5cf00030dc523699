"""A real Prometheus server scrapes a real training."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

from tests.support.prometheus import prometheus, until_answered

SCRIPT = """
import keras, numpy
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(1)])
model.compile("adam", "mse")
x = numpy.ones((640, 8), "float32")
model.fit(x, x[:, :1], batch_size=32, epochs=100_000, verbose=0, validation_split=0.1)
"""
QUERIES = (
    'up{job="trainwarden"} == 1',
    'trainwarden_run_state{run="train", state="running"} == 1',
    'trainwarden_step{run="train"} > 40',
    'trainwarden_epoch{run="train"} > 1',
    'trainwarden_loss{run="train"} > 0',
    'trainwarden_effective_batch_samples{run="train"} == 32',
    'trainwarden_microbatch_slices{run="train"} == 1',
    'rate(trainwarden_step_duration_seconds_count{run="train"}[1m]) > 0',
    'trainwarden_phase_seconds_total{run="train", phase="compiling"} > 0',
    'trainwarden_snapshots_total{run="train", tier="memory"} > 0',
    'trainwarden_snapshot_size_bytes{run="train"} > 0',
    'trainwarden_allocator_limit_bytes{run="train"} == 256 * 1024 * 1024',
    'trainwarden_allocator_in_use_bytes{run="train"} > 0',
    'trainwarden_allocator_source{run="train"} == 1',
    'trainwarden_processes_resident_memory_bytes{run="train"} > 1e8',
    'trainwarden_processes_threads{run="train"} > 1',
    'rate(trainwarden_processes_cpu_seconds_total{run="train"}[1m]) > 0',
    'trainwarden_filesystem_free_bytes{filesystem="state"} > 0',
    'trainwarden_collector_success{collector="host"} == 1',
    "trainwarden_build_info",
)
"""What a training says of itself, one after the other."""


def test_a_training_is_scraped(tool: Callable[[str], str], tmp_path: Path) -> None:
    """Every kind of figure of a running training arrives, and nothing is unclean."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    with socket.create_server(("127.0.0.1", 0)) as free:
        target = f"127.0.0.1:{free.getsockname()[1]}"
    command = Path(sys.executable).with_name("trainwarden")
    server = tmp_path / "prometheus"
    server.mkdir()
    with subprocess.Popen(
        [
            *(str(command), "run", "--state-dir", str(tmp_path / "state")),
            *("--cpu-memory", "256MiB", "--metrics", target, str(script)),
        ],
        cwd=tmp_path,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as run:
        try:
            with prometheus(tool("prometheus"), target, server) as address:
                for query in QUERIES:
                    until_answered(address, query)
            assert promtool(tool("promtool"), scrape(target)) == b""
        finally:
            run.terminate()
            run.wait(120)
    shutil.rmtree(server)


def scrape(target: str) -> bytes:
    """What a scrape says now."""
    connection = HTTPConnection(target, timeout=10)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read()
    finally:
        connection.close()


def promtool(program: str, text: bytes) -> bytes:
    """What promtool has to say about it."""
    told = subprocess.run(
        [program, "check", "metrics"],
        input=text,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
    )
    assert told.returncode == 0, told.stdout
    return told.stdout
