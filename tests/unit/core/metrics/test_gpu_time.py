"""GPU time: who held a GPU, and whether it worked."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.gpu.gpu_readings import Gpu, MigDevice
from supervisor.core.metrics.gpu_time import HELD, USES, clocked, uses_of
from supervisor.core.metrics.machine_state import GpuTimes, JobsView, Machine

PART = MigDevice(uuid="MIG-a", instance=1, compute_instance=0, memory=None)
MINE = JobsView(holders={"GPU-a": ("digits", "anna")})


def test_what_each_gpu_is_used_for() -> None:
    """Held and working, held and not, held and silent, nobody's, and given to nobody."""
    gpus = (
        Gpu(uuid="GPU-a", index=0, utilization=0.9),
        Gpu(uuid="GPU-b", index=1, utilization=0.04),
        Gpu(uuid="GPU-c", index=2, mig=(PART,)),
        Gpu(uuid="GPU-d", index=3, utilization=0.9),
        Gpu(uuid="GPU-e", index=4, lost=True),
        Gpu(uuid="GPU-f", index=5, utilization=0.9),
        Gpu(uuid="GPU-g", index=6, utilization=0.9),
    )
    held = ("GPU-a", "GPU-b", "MIG-a", "GPU-e", "GPU-f")
    jobs = JobsView(holders=dict.fromkeys(held, ("digits", "anna")))
    kept_out = {"quarantine": ("GPU-f",), "out_of_service": ("6",)}
    assert uses_of(Machine(gpus=gpus, jobs=jobs, kept_out=kept_out)) == {
        "GPU-a": "busy",
        "GPU-b": "idle",
        "GPU-c": "unknown",
        "MIG-a": "unknown",
        "GPU-d": "free",
        "GPU-e": "out",
        "GPU-f": "out",
        "GPU-g": "out",
    }


def test_time_is_booked_on_what_is_now() -> None:
    """Every use is there at 0 from the first look; then it counts up."""
    busy = Machine(gpus=(Gpu(uuid="GPU-a", utilization=1.0),), jobs=MINE)
    idle = replace(busy, gpus=(Gpu(uuid="GPU-a", utilization=0.0),))
    silent = Machine(jobs=MINE)
    lost = replace(busy, gpus=(Gpu(uuid="GPU-a", lost=True),))
    times = GpuTimes()
    for now, machine in ((0.0, busy), (1.0, busy), (3.0, idle), (6.0, silent)):
        times = clocked(times, machine, runs={"digits"}, now=now)
    whole = {"busy": 1.0, "idle": 2.0, "unknown": 3.0, "free": 0.0, "out": 0.0}
    assert times.devices == {("GPU-a", use): whole[use] for use in USES}
    assert times.runs == {("digits", use): whole[use] for use in HELD}
    assert times.users == {("anna", use): whole[use] for use in HELD}
    times = clocked(times, lost, runs={"digits"}, now=10.0)
    assert times.devices["GPU-a", "out"] == 4.0
    assert times.runs["digits", "unknown"] == 7.0


def test_runs_that_are_not_shown_are_forgotten() -> None:
    """A job that is taken off the list takes its series with it; what its owner had of
    GPUs stays."""
    machine = Machine(jobs=MINE)
    times = clocked(GpuTimes(), machine, runs={"digits"}, now=0.0)
    assert times.runs
    times = clocked(times, machine, runs=set(), now=1.0)
    assert times.runs == {}
    assert times.users["anna", "unknown"] == 1.0


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1)), max_size=20))
def test_no_time_is_lost_or_made(looks: list[tuple[float, float]]) -> None:
    """All uses of a GPU together are the time since the first look; none goes back."""
    times = GpuTimes()
    for now, utilization in sorted(looks):
        gpu = Gpu(uuid="GPU-a", utilization=utilization)
        before, machine = times, Machine(gpus=(gpu,), jobs=MINE)
        times = clocked(times, machine, runs={"digits"}, now=now)
        assert all(times.devices[key] >= spent for key, spent in before.devices.items())
    if looks:
        passed = max(looks)[0] - min(looks)[0]
        assert abs(sum(times.devices.values()) - passed) < 1e-3
