"""When an allocator is read, and what of it gets to the page."""

import time
from pathlib import Path

import pytest

from supervisor.wire.files import write_json
from supervisor.wire.page import MemorySource, read_page
from supervisor.wire.readings import unpack
from tests.support.attempts import Attempts
from trainers.backends.memory.allocator_figures import Figures, MemoryMark
from trainers.backends.memory.paced_probe import LEAST_SECONDS, SHARE, PacedProbe
from trainers.process.attempt_reporting import Attempt

LIMIT = 1000


class Reader:
    """An allocator that tells what it is told."""

    glance_seconds = 2e-5

    def __init__(self) -> None:
        self.there = True
        self.in_use = 100
        self.takes = 0.0
        self.readings = 0

    def begin(self) -> bool:
        """Whether it is there."""
        return self.there

    def read(self) -> Figures | None:
        """As it was told, in the time that it was told."""
        self.readings += 1
        time.sleep(self.takes)
        if not self.there:
            return None
        source = MemorySource.COUNTS
        return Figures(
            source=source, limit=LIMIT, in_use=self.in_use, peak=300, pool=500
        )

    def counts(self) -> tuple[int, int] | None:
        """The same, at once."""
        return (self.in_use, 300) if self.there else None


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    """An attempt with a page."""
    attempts = Attempts(tmp_path)
    directive = attempts.directive(attempts.script(""))
    root = Path(directive.attempt_directory)
    root.mkdir(parents=True)
    write_json(root / "directive.json", directive.to_json())
    return Attempt(directive)


@pytest.fixture
def reader() -> Reader:
    """An allocator."""
    return Reader()


@pytest.fixture
def probe(attempt: Attempt, reader: Reader) -> PacedProbe:
    """A probe of it, begun."""
    found = PacedProbe(attempt, reader, limit_bytes=None)
    found.begin()
    return found


def steps_on_page(attempt: Attempt) -> list[int]:
    """The steps of the readings that lie there, oldest first."""
    page = read_page(attempt.paths.page)
    assert page is not None
    return [one.step for one in unpack(page.memory_recent, after_ns=0)]


def test_what_is_not_known_is_not_on_the_page(
    attempt: Attempt, probe: PacedProbe
) -> None:
    """It is None there, and not 0."""
    assert probe.look(step=3) is not None
    page = read_page(attempt.paths.page)
    assert page is not None
    assert (page.memory_in_use_bytes, page.memory_peak_bytes) == (100, 300)
    assert (page.memory_limit_bytes, page.memory_pool_bytes) == (LIMIT, 500)
    assert (page.memory_step, page.memory_source) == (3, MemorySource.COUNTS)
    assert page.memory_fragmentation is None
    assert page.memory_largest_free_bytes is None
    assert page.memory_largest_request_bytes is None
    assert page.memory_chunks is None


def test_slow_readings_are_seldom(probe: PacedProbe, reader: Reader) -> None:
    """The pause follows from what a reading takes most often."""
    began = time.perf_counter()
    assert probe.due(began)
    probe.look(step=1)
    assert not probe.due(began)
    assert probe.due(time.perf_counter() + LEAST_SECONDS)
    reader.takes = 0.01
    for step in range(2, 6):
        probe.look(step=step)
    assert not probe.due(time.perf_counter() + 0.9 * reader.takes / SHARE)


def test_a_movement_is_read_quickly(
    attempt: Attempt, probe: PacedProbe, reader: Reader
) -> None:
    """By a glance, as soon as a hundredth of the limit has moved, and without a reading."""
    probe.look(step=1)
    reader.in_use += LIMIT // 100 - 1
    probe.glance(time.perf_counter(), step=2)
    assert steps_on_page(attempt) == [1]
    reader.in_use += 1
    now = time.perf_counter()
    probe.glance(now, step=3)
    assert steps_on_page(attempt) == [1, 3]
    assert reader.readings == 1
    assert now < probe.glance_due <= now + 0.2


def test_nothing_to_see(attempt: Attempt, probe: PacedProbe, reader: Reader) -> None:
    """Nobody glances, and nothing gets to the page."""
    reader.there = False
    probe.begin()
    assert probe.glance_due == float("inf")
    assert probe.look(step=1) is None
    page = read_page(attempt.paths.page)
    assert page is not None
    assert page.memory_source is None


def test_a_mark_tells_what_is_in_use(probe: PacedProbe, reader: Reader) -> None:
    """And the most of the readings since the mark before; none before a reading."""
    assert probe.mark() is None
    for in_use in (200, 150):
        reader.in_use = in_use
        probe.look(step=1)
    found = probe.mark()
    assert found == MemoryMark(in_use=150, peak=300, most_between=200, limit=LIMIT)
    again = probe.mark()
    assert again is not None
    assert again.most_between == 0
    reader.there = False
    assert probe.mark() is None
