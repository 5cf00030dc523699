"""One run's memory, watched from its pages: restarts, warnings, and none too many."""

import os
import time
from dataclasses import replace

import pytest

from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.gpu.gpu_readings import Gpu, GpuMemory
from supervisor.core.jobs.spec import build_spec
from supervisor.core.lifecycle.events import Event, Exited, MemoryHigh, RestartDue
from supervisor.core.memory.forecast import ENOUGH, Resource
from supervisor.host.exporter.allocator_status import completed
from supervisor.host.memory.memory_monitor import MemoryMonitor
from supervisor.wire.page import MemorySource, Page, Phase
from supervisor.wire.readings import AllocatorReading, pack
from tests.support.holding import holding

LIMIT = 1000
PAGE = Page(
    pid=1,
    phase=int(Phase.TRAINING),
    step=0,
    slices=1,
    memory_limit_bytes=LIMIT,
    memory_in_use_bytes=100,
    memory_peak_bytes=150,
)


def watch(**forecast: object) -> MemoryMonitor:
    """As a spec asks for it."""
    return MemoryMonitor.of(build_spec({"script": "x.py", "forecast": forecast}))


def page_at(second: int, *, in_use: int, **changes: int | None) -> Page:
    """The page of a second of training."""
    page = replace(
        PAGE,
        step=second + 1,
        memory_ns=second,
        memory_in_use_bytes=in_use,
        memory_peak_bytes=in_use + 50,
    )
    return replace(page, **changes)  # type: ignore[arg-type]  # by name


def watched(
    memory: MemoryMonitor, rate: int, *, seconds: int, **changes: int | None
) -> list[Event]:
    """What comes of so many seconds of growth."""
    found: list[Event] = []
    for second in range(seconds):
        page = page_at(second, in_use=min(100 + rate * second, 940), **changes)
        found += memory.look(attempt=1, pid=None, page=page, now=float(second))
    return found


def test_growth_is_answered_once_it_is_close() -> None:
    """The restart says what it averts, and a warning came before it."""
    memory = watch()
    events = watched(memory, 10, seconds=84)
    kinds = [type(event) for event in events]
    assert kinds[0] is MemoryHigh
    restart = next(event for event in events if isinstance(event, RestartDue))
    assert restart.averts is not None
    assert restart.averts.cause == "device_oom"
    assert memory.seconds_left().keys() == {"device"}


def test_when_all_is_calm() -> None:
    """While it trains, with enough known, and far from any end; each attempt anew."""
    memory = watch()
    watched(memory, 0, seconds=ENOUGH - 1)

    def calm(second: int, *, in_use: int = 100, attempt: int = 1, **page: int) -> bool:
        seen = page_at(second, in_use=in_use, **page)
        memory.look(attempt=attempt, pid=None, page=seen, now=float(second))
        return memory.calm

    assert not memory.calm
    assert calm(ENOUGH)
    assert not calm(ENOUGH + 1, in_use=600)
    assert calm(ENOUGH + 2, phase=int(Phase.VALIDATING))
    assert not calm(ENOUGH + 3, phase=int(Phase.COMPILING))
    assert calm(ENOUGH + 4)
    assert not calm(ENOUGH + 5, attempt=2)


@pytest.mark.parametrize(
    ("in_use", "rss", "calm"),
    [(100, 100, True), (600, 100, False), (100, 499, True), (100, 501, False)],
)
def test_a_glance_between_two_looks(in_use: int, rss: int, *, calm: bool) -> None:
    """Sees what comes near its end, of the device or of main memory."""
    memory = watch()
    memory.host_limit = 1000
    for second in range(ENOUGH):
        page = page_at(second, in_use=100, host_rss_bytes=100)
        memory.look(attempt=1, pid=os.getpid(), page=page, now=2.0 * second)
    assert memory.calm
    memory.glance(page_at(ENOUGH, in_use=in_use, host_rss_bytes=rss))
    assert memory.calm == calm


def test_a_glance_sees_the_newest_reading() -> None:
    """Those between two full ones stand elsewhere on the page."""
    memory = watch()
    for second in range(ENOUGH):
        page = page_at(second, in_use=100, host_rss_bytes=100)
        memory.look(attempt=1, pid=os.getpid(), page=page, now=2.0 * second)
    newest = AllocatorReading(ns=ENOUGH + 1, step=ENOUGH + 1, in_use=950, peak=950)
    page = page_at(ENOUGH, in_use=100, host_rss_bytes=100)
    memory.glance(replace(page, memory_recent=pack([newest])))
    assert not memory.calm


def test_main_memory_is_read_each_second() -> None:
    """Whenever in its second a look comes."""
    memory = watch()
    memory.host_limit = 1000
    for second in range(ENOUGH):
        page = page_at(second, in_use=100, host_rss_bytes=100)
        late = 0.001 * (second % 2)
        memory.look(attempt=1, pid=os.getpid(), page=page, now=second + late)
    assert memory.calm  # enough is known of both


def test_an_estimate_is_foreseen_by_the_drivers_limit() -> None:
    """Training that knows of no limit: its readings are seen against that of its GPU."""
    gpu = Gpu(uuid="GPU-a", index=0, memory=GpuMemory(total=LIMIT, used=0, free=LIMIT))
    memory, events = watch(), list[Event]()
    for second in range(84):
        used = 100 + 10 * second
        page = page_at(
            second,
            in_use=used,
            memory_limit_bytes=None,
            memory_source=int(MemorySource.ESTIMATE),
        )
        newest = AllocatorReading(
            ns=second + 1, step=second + 1, in_use=used, peak=used + 50
        )
        told = replace(page, memory_recent=pack([newest]))
        whole = completed(told, None, gpus=lambda: [gpu])
        events += memory.look(attempt=1, pid=None, page=whole, now=float(second))
    assert {type(event) for event in events} == {MemoryHigh, RestartDue}
    assert memory.seconds_left().keys() == {"device"}


def test_who_is_asked_only_for_an_estimate() -> None:
    """The driver is no matter where the allocator's own map is read, or nothing is."""

    def never() -> list[Gpu]:
        pytest.fail("asked")

    mapped = replace(PAGE, memory_source=int(MemorySource.MAP))
    assert completed(mapped, None, gpus=never) is mapped
    assert completed(None, None, gpus=never) is None


def test_where_the_driver_adds_nothing() -> None:
    """Without a GPU, or without counts, an estimate stays what it is."""
    gpu = Gpu(uuid="GPU-a", index=0, memory=GpuMemory(total=LIMIT, used=0, free=LIMIT))
    estimate = replace(PAGE, memory_source=int(MemorySource.ESTIMATE))
    assert completed(estimate, None, gpus=list) is estimate
    empty = replace(estimate, memory_in_use_bytes=None)
    assert completed(empty, None, gpus=lambda: [gpu]) is empty


def test_a_gpu_that_is_out_is_not_its_own() -> None:
    """The memory of an attempt is on none of those that it may not use."""
    gpus = [
        Gpu(
            uuid=f"GPU-{n}",
            index=n,
            memory=GpuMemory(total=LIMIT * (n + 1), used=0, free=LIMIT * (n + 1)),
        )
        for n in range(3)
    ]
    estimate = replace(PAGE, memory_limit_bytes=None, memory_source=3)
    page = completed(estimate, [0, 2], gpus=lambda: gpus, out={"GPU-0"})
    assert page is not None
    assert page.memory_limit_bytes == 3 * LIMIT


def test_what_does_not_grow_is_left_alone() -> None:
    """Neither a restart nor a warning."""
    memory = watch()
    assert watched(memory, 0, seconds=100) == []
    assert memory.seconds_left() == {}


def test_both_can_be_off() -> None:
    """A spec may ask for neither."""
    memory = watch(restart_below="off", warn_at="off")
    assert watched(memory, 10, seconds=84) == []


def test_a_warning_comes_once_a_run() -> None:
    """Another attempt does not warn again."""
    memory = watch(restart_below="off")
    assert len(watched(memory, 10, seconds=84)) == 1
    later = memory.look(attempt=2, pid=None, page=page_at(1, in_use=940), now=200.0)
    assert later == []


def test_planned_slices_are_no_warning() -> None:
    """They were chosen so that they nearly fill the memory."""
    assert watched(watch(restart_below="off"), 10, seconds=84, slices=4) == []


def test_other_slices_are_no_trend() -> None:
    """A slice of another size needs other memory: what was read before is forgotten."""
    memory = watch(warn_at="off")
    assert watched(memory, 10, seconds=80) != []
    page = page_at(90, in_use=940, slices=2, slice_size=8)
    assert memory.look(attempt=1, pid=None, page=page, now=90.0) == []
    memory.close(Exited(evidence=Evidence(exit=None), last_step=1, snapshot_step=1))
    assert memory.seconds_left() == {}


def test_nothing_before_training() -> None:
    """While training is set up memory grows, as it should."""
    memory = watch()
    for page in (None, replace(PAGE, step=None), replace(PAGE, phase=2)):
        assert memory.look(attempt=1, pid=None, page=page, now=1.0) == []


def test_the_host_counts_against_its_limit() -> None:
    """Resident memory near the spec's own limit is a warning of its own."""
    spec = build_spec({"script": "x.py", "memory": {"host": "1000B"}})
    memory = MemoryMonitor.of(spec)
    page = page_at(1, in_use=1, host_rss_bytes=950)
    events = memory.look(attempt=1, pid=os.getpid(), page=page, now=5.0)
    (high,) = [event for event in events if isinstance(event, MemoryHigh)]
    assert high.resource is Resource.HOST
    assert high.level.part == pytest.approx(0.95)


@pytest.mark.parametrize(
    ("rss", "seconds"), [(400, [10.0]), (600, [6.0])], ids=["far", "near"]
)
def test_room_is_looked_at_seldom_while_there_is_much(
    rss: int, seconds: list[float]
) -> None:
    """Who takes half of what it may grow to, or more, is told at the next look that it
    may grow to less by now; who takes less, within five seconds."""
    memory, told = watch(), list[float]()
    memory.host_limit = 1000
    page = page_at(1, in_use=1, host_rss_bytes=rss)
    for now in (5.0, 6.0, 7.0, 8.0, 9.0, 10.0):
        events = memory.look(attempt=1, pid=os.getpid(), page=page, now=now)
        told += [now for event in events if isinstance(event, MemoryHigh)]
        memory.host_limit = rss + 10
    assert told == seconds


def test_the_end_is_told_how_it_grew() -> None:
    """The autopsy gets the forecasts of the attempt."""
    memory = watch(restart_below="off")
    watched(memory, 10, seconds=60)
    exited = Exited(evidence=Evidence(exit=None), last_step=60, snapshot_step=60)
    (forecast,) = memory.close(exited).evidence.memory.forecasts
    assert forecast.growth == pytest.approx(10)


def test_a_pool_that_falls_into_pieces_is_answered() -> None:
    """In use stays what it is; the largest block that could be had gets smaller."""
    memory, found = watch(), list[Event]()
    for second in range(90):
        page = page_at(
            second,
            in_use=100,
            memory_largest_request_bytes=100,
            memory_largest_allocatable_bytes=900 - 9 * second,
        )
        found += memory.look(attempt=1, pid=None, page=page, now=float(second))
    restart = found[0]
    assert isinstance(restart, RestartDue)
    assert restart.averts is not None
    assert restart.averts.cause == "device_oom_fragmentation"


def test_workers_count_too() -> None:
    """What the training process has started holds main memory as well."""
    spec = build_spec({"script": "x.py", "memory": {"host": "1000MiB"}})
    page = page_at(1, in_use=1, host_rss_bytes=800 * 2**20)
    memory, found = MemoryMonitor.of(spec), list[Event]()

    def look(*workers: int) -> list[Event]:
        tree, now = frozenset(workers), time.monotonic()
        return memory.look(attempt=1, pid=os.getpid(), page=page, now=now, tree=tree)

    assert look() == []
    with holding(128 * 2**20) as worker:
        ends = time.monotonic() + 60.0
        while not found:
            assert time.monotonic() < ends
            time.sleep(0.1)
            found = look(worker.pid)
    (high,) = found
    assert isinstance(high, MemoryHigh)
    assert high.resource is Resource.HOST


def test_readings_between_two_looks_count() -> None:
    """A leak too fast for the looks: what training has read meanwhile shows it."""
    memory, found = watch(), list[Event]()
    recent = [
        AllocatorReading(ns=at, step=at, in_use=20 * at, peak=20 * at + 50, limit=LIMIT)
        for at in range(1, 47)
    ]
    for look, last in enumerate((1, 23, 46)):
        page = page_at(last, in_use=20 * last, memory_ns=last)
        page = replace(page, memory_recent=pack(recent[:last]))
        found += memory.look(attempt=1, pid=None, page=page, now=float(look))
    assert [type(one) for one in found] == [MemoryHigh, RestartDue]
