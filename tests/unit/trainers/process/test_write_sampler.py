"""The sampler finds the thread that made it in a write that does not return."""

import contextlib
import os
import threading
from pathlib import Path

import pytest

from trainers.process.write_sampler import NAMED, WRITES, WriteSampler

SOME = 5


def test_a_write_that_nobody_takes_is_found() -> None:
    """A full pipe: the writer stands there until somebody reads."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    while True:
        try:
            os.write(writer, bytes(65536))
        except BlockingIOError:
            break
    os.set_blocking(writer, True)
    samplers: list[WriteSampler] = []

    def train() -> None:
        samplers.append(WriteSampler())
        os.write(writer, bytes(65536))

    thread = threading.Thread(target=train)
    thread.start()
    while not samplers or not samplers[0].found:
        for one in samplers:
            one.look()
    name = str(Path(f"/proc/self/fd/{writer}").readlink())
    for _ in range(SOME):
        samplers[0].look()
    assert samplers[0].found[name] > SOME
    assert set(samplers[0].found) == {name}
    os.set_blocking(
        reader, False
    )  # what is left may be nothing, a moment before its end
    while thread.is_alive():
        with contextlib.suppress(BlockingIOError):
            os.read(reader, 65536)
    thread.join()
    os.close(reader)
    os.close(writer)


def test_a_thread_that_waits_for_something_else_does_not_write() -> None:
    """Looks are counted, and nothing is found; who reads its own state runs."""
    sampler = WriteSampler()
    looker = threading.Thread(target=sampler.look)
    looker.start()
    looker.join()
    assert sampler.looks == 1
    assert not sampler.found


def test_where_the_kernel_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is counted, so nothing is told."""
    sampler = WriteSampler()
    monkeypatch.setattr(sampler, "_path", Path("/proc/self/task/0/syscall"))
    sampler.look()
    assert sampler.looks == 0
    assert all(len(names) == 5 for names in WRITES.values())


def test_names_are_bounded() -> None:
    """A script may write a new file each time, for months: what is beyond is counted
    together."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, bytes(65536))
    os.set_blocking(writer, True)
    samplers: list[WriteSampler] = []

    def train() -> None:
        samplers.append(WriteSampler())
        os.write(writer, bytes(65536))

    thread = threading.Thread(target=train)
    thread.start()
    while not samplers:
        pass
    samplers[0].found.update(str(number) for number in range(NAMED))
    while not samplers[0].found[""]:
        samplers[0].look()
    assert len(samplers[0].found) == NAMED + 1
    os.set_blocking(
        reader, False
    )  # what is left may be nothing, a moment before its end
    while thread.is_alive():
        with contextlib.suppress(BlockingIOError):
            os.read(reader, 65536)
    thread.join()
    os.close(reader)
    os.close(writer)
