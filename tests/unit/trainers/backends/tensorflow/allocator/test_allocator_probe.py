"""The allocator's map, read live in a training process."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tensorflow.core.protobuf import bfc_memory_map_pb2

from supervisor.wire.files import read_json
from supervisor.wire.messages.memory_answer import MemoryAnswer
from supervisor.wire.page import MemorySource, Page, read_page
from supervisor.wire.paths import AttemptPaths
from tests.support.attempts import PATIENCE, Attempts
from tests.support.memory_scripts import FRAGMENTING
from trainers.backends.tensorflow.allocator import native_ops, op_build

LIMIT = 256 * 2**20
LIMITED = {
    "TF_CPU_ALLOCATOR_USE_BFC": "1",
    "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(LIMIT // 2**20),
    "TF_ENABLE_ONEDNN_OPTS": "0",
}


@pytest.fixture
def attempts(tmp_path: Path) -> Attempts:
    """A run of its own, under a limit."""
    return Attempts(tmp_path, {"memory_limit_bytes": LIMIT})


@pytest.fixture(scope="module")
def library() -> Path:
    """The operations, built here if nobody has before: a loaded machine takes long."""
    built = op_build.get(native_ops.recipe(), os.environ)
    assert isinstance(built, Path), built
    return built


def until(paths: AttemptPaths, wanted: Callable[[Page], bool]) -> Page:
    """Wait until the page is as wanted."""
    deadline = time.monotonic() + PATIENCE
    page = None
    while time.monotonic() < deadline:
        page = read_page(paths.page)
        if page is not None and wanted(page):
            return page
        time.sleep(0.05)
    pytest.fail(f"never came: {page}")


def ask(paths: AttemptPaths) -> MemoryAnswer:
    """Ask for the map, and wait for the answer."""
    paths.memory_request.touch()
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and not paths.memory_answer.exists():
        time.sleep(0.02)
    value = read_json(paths.memory_answer)
    assert value is not None
    answer = MemoryAnswer.from_json(value)
    assert answer is not None
    return answer


@pytest.mark.usefixtures("library")
def test_fragmentation_is_that_of_the_map(attempts: Attempts) -> None:
    """What the page says of a step is what TensorFlow's own dump of that step says.

    And who holds what is told: the callback's list, the model's variables.
    """
    script = attempts.script(FRAGMENTING)
    process, paths = attempts.start(script, "400", environment=LIMITED)
    try:
        until(paths, lambda page: page.memory_source == MemorySource.MAP)
        until(paths, lambda page: (page.step or 0) > 20)
        answer = ask(paths)
        page = until(paths, lambda page: (page.memory_step or 0) >= (answer.step or 0))
        assert page.memory_step == answer.step
        dump = bfc_memory_map_pb2.MemoryDump.FromString(paths.memory_map.read_bytes())
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)
    assert page.memory_fragmentation is not None
    assert page.memory_fragmentation > 0.1
    theirs = dump.stats.fragmentation_metric
    assert page.memory_fragmentation == pytest.approx(theirs, rel=0.01)
    free = [chunk.size for chunk in dump.chunk if not chunk.in_use]
    assert page.memory_largest_free_bytes == max(free)
    pool = sum(chunk.size for chunk in dump.chunk)
    assert page.memory_pool_bytes == pool
    assert page.memory_limit_bytes == LIMIT
    assert page.memory_largest_allocatable_bytes == max(*free, LIMIT - pool)
    assert page.memory_chunks == len(dump.chunk)
    used = {chunk.address: chunk for chunk in dump.chunk if chunk.in_use}
    kernels = [one for one in answer.variables if one.name.endswith("kernel")]
    assert kernels
    assert all(used[one.address or 0].requested_size == one.bytes for one in kernels)
    (holes,) = [one for one in answer.kept if one.where == "Holes.kept"]
    assert (holes.kind, holes.count, holes.bytes) == ("tensor", 40, 40 * 2**20)
    assert holes.example == "uint8 (1048576,)"


@pytest.mark.slow
def test_without_a_compiler_it_is_an_estimate(
    attempts: Attempts, tmp_path: Path
) -> None:
    """Training goes on, the page says that it is an estimate, and one notice why; what
    every attempt meets anew, such as a cache that cannot be used, is said once a run."""
    script = attempts.script(FRAGMENTING)
    environment = {
        **LIMITED,
        "TRAINWARDEN_CACHE_DIR": str(tmp_path / "cache"),
        "CXX": str(tmp_path / "no-compiler"),
    }
    first = attempts.run(script, "2", environment=environment)
    assert first.code == 0, first.err
    page = first.page
    assert page.memory_source == MemorySource.ESTIMATE
    assert page.memory_fragmentation is None
    assert page.memory_in_use_bytes is not None
    assert page.memory_largest_allocatable_bytes == LIMIT - page.memory_in_use_bytes
    told = [one["sentence"] for one in first.of("notice")]
    assert [one for one in told if "there is no C++ compiler" in one]
    assert list((tmp_path / "cache").glob("*.failed"))
    environment["TRAINWARDEN_CACHE_DIR"] = "/proc/none"
    again = [
        str(
            attempts.run(script, "2", environment=environment, restore=False).of(
                "notice"
            )
        )
        for _ in range(2)
    ]
    assert ["the cache cannot be used" in told for told in again] == [True, False]
    assert "compiler" not in str(again)
