"""A real out-of-memory of TensorFlow: its log and its dumps, read by our readers."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from supervisor.core.diagnosis.diagnose import diagnose_log
from supervisor.core.memory.bfc_map import figures_of
from supervisor.core.memory.figures import OomVerdict, verdict
from supervisor.host.telemetry.allocator_dump import dump_files, read_first_map
from supervisor.host.telemetry.log_follower import scan_file

CHILD = """
import json, sys
import tensorflow as tf
from tensorflow.core.protobuf import bfc_memory_map_pb2

held = [tf.zeros([4 << 20], tf.float32) for _ in range(5)]
try:
    held = [*held[::2], tf.zeros([24 << 20], tf.float32)]
except tf.errors.ResourceExhaustedError as error:
    print(error, file=sys.stderr)
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        dump = bfc_memory_map_pb2.MemoryDump.FromString(file.read())
    print(json.dumps([
        dump.allocator_name, dump.stats.peak_bytes_in_use,
        dump.stats.fragmentation_metric,
        [[c.address, c.size, c.requested_size, c.in_use] for c in dump.chunk],
    ]))
"""
"""Holds tensors of 16 MiB, asks for 96 MiB more; reads dumps with the real protobuf."""


def child(log: Path, *arguments: str, **environment: str) -> str:
    """Run CHILD; its standard output. Its standard error goes to ``log``."""
    with log.open("wb") as errors:
        done = subprocess.run(
            [sys.executable, "-c", CHILD, *arguments],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=errors,
            timeout=120,
            check=False,
            text=True,
        )
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(find_spec("tensorflow") is None, reason="TensorFlow is not here")
def test_a_real_dump_is_read_as_the_real_protobuf_reads_it(tmp_path: Path) -> None:
    """Every chunk, the peak and the fragmentation; and log and dump agree."""
    dumps, log = tmp_path / "dumps", tmp_path / "output.log"
    dumps.mkdir()
    limit = {"TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPU_BFC_MEM_LIMIT_IN_MB": "100"}
    child(log, TF_BFC_MEMORY_DUMP=str(dumps / "oom"), **limit)
    ours = read_first_map(dumps)
    assert ours is not None
    first = str(dump_files(dumps)[0])
    output = child(tmp_path / "second.log", first, TF_CPU_BFC_MEM_LIMIT_IN_MB="400")
    name, peak, metric, chunks = json.loads(output.splitlines()[-1])
    assert (ours.allocator, ours.peak_bytes) == (name, peak)
    assert figures_of(ours).fragmentation == pytest.approx(metric)
    assert [
        [chunk.address, chunk.size, chunk.requested_size, chunk.in_use]
        for chunk in ours.chunks
    ] == chunks
    diagnosis = diagnose_log(scan_file(log))
    memory = diagnosis.memory
    assert memory is not None
    used = sum(chunk.size for chunk in ours.chunks if chunk.in_use)
    assert (memory.in_use_bytes, memory.limit_bytes) == (used, 100 * 1024**2)
    assert memory.requested_bytes == 96 * 1024**2
    assert memory.fragmentation == pytest.approx(metric, abs=0.01)
    assert diagnosis.cause == "device_oom"
    assert verdict(memory) is OomVerdict.CAPACITY
