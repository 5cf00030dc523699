"""Checks of the allocators on the GPU: what they tell, and whether we read it rightly."""

import json
import subprocess
from collections.abc import Mapping
from functools import partial
from typing import Any

from tests.gpu.chosen_gpu import GIB
from tests.gpu.gpu_check import MOST_SAID, NOTHING, CheckFacts, CheckPlace, GpuCheck

READING_BYTES = 4096
"""Of the GPU that reading the map may take itself: 256 were seen."""
BLOCKS = 20 * 16 * 2**20
"""What the script's holes are together: 20 of 16 MiB."""


def told_by(
    place: CheckPlace, script: str, *arguments: str, more: Mapping[str, str] = NOTHING
) -> dict[str, Any]:
    """The JSON that a script ends with. Raises RuntimeError without."""
    done = place.python(place.script(script), *arguments, more=more)
    last = done.stdout.strip().rpartition("\n")[2]
    try:
        found: dict[str, Any] = json.loads(last)
    except ValueError:
        raise RuntimeError(done.stdout[-MOST_SAID:]) from None
    return found


def bfc(place: CheckPlace) -> CheckFacts:
    """The map of TensorFlow's allocator on the GPU, by the operation compiled here."""
    seen = CheckFacts(facts=told_by(place, "allocator"))
    facts = seen.facts
    seen.expect(facts["device"] == "GPU:0", f"it is {facts['device']}")
    seen.expect(not facts["built"], f"not built: {facts['built']}")
    for moment in ("begin", "full", "holes"):
        ours, counted = facts[moment]["ours"], facts[moment]["counted"]
        seen.expect(ours["source"] == "MAP", f"{moment}: no map")
        seen.expect(ours["in_use"] == counted["current"], f"{moment}: in use differs")
        later = counted["peak"] - ours["peak"]
        seen.expect(0 <= later <= READING_BYTES, f"{moment}: peak differs by {later}")
    seen.expect(facts["begin"]["ours"]["limit"] == 2**30, "not the limit that was set")
    holes = facts["holes"]["ours"]
    free = holes["pool"] - holes["in_use"]
    seen.expect(free >= BLOCKS, f"{free} bytes are free")
    seen.expect(holes["fragmentation"] > 0.4, f"fragmentation {holes['fragmentation']}")
    seen.expect("OOM" in facts["large"], f"600 MiB: {facts['large']}")
    return seen


def asynchronous(place: CheckPlace) -> CheckFacts:
    """CUDA's own pool has no map: counts are an answer."""
    seen = CheckFacts(
        facts=told_by(
            place, "allocator", more={"TF_GPU_ALLOCATOR": "cuda_malloc_async"}
        )
    )
    ours = seen.facts["holes"]["ours"]
    seen.expect(ours and ours["source"] == "COUNTS", f"told: {ours}")
    seen.expect(ours and ours["fragmentation"] is None, "fragmentation without a map")
    return seen


def again(place: CheckPlace, *, xla: bool) -> CheckFacts:
    """Whether a process goes on after it ran out of memory; nothing is expected, not even
    an end: XLA tries algorithm after algorithm, each in vain, for minutes."""
    seen = CheckFacts()
    try:
        seen.facts = told_by(place, "again", "xla" if xla else "plain")
    except subprocess.TimeoutExpired as error:
        seen.left_out.append(f"it did not end within {error.timeout:.0f} s")
    return seen


def limited(place: CheckPlace, *, backend: str) -> CheckFacts:
    """The toolbox holds a process to its limit, and lets it grow without one."""
    told = {"KERAS_BACKEND": backend}
    facts = {
        how: told_by(place, "toolbox_limit", how, more=told)
        for how in ("limit", "grow")
    }
    seen = CheckFacts(facts=facts)
    for how, found in facts.items():
        seen.expect(not found["small"], f"{how}: {found['small']}")
        seen.expect(not found["half"], f"{how}: half of it: {found['half']}")
    seen.expect(facts["limit"]["twice"], "twice the limit can be had")
    seen.expect(not facts["grow"]["twice"], f"growth: {facts['grow']['twice']}")
    seen.expect(facts["grow"]["taken"] < 2 * GIB, f"{facts['grow']['taken']} at once")
    return seen


def figures(place: CheckPlace, *, backend: str) -> CheckFacts:
    """What the allocator of ``backend`` counts."""
    return CheckFacts(
        facts=told_by(place, "figures", backend, more={"KERAS_BACKEND": backend})
    )


CHECKS = (
    GpuCheck(
        name="bfc",
        what="tensorflow: the allocator's map on the GPU, holes and all",
        run=bfc,
        needs=("tensorflow", "keras"),
        alone=False,
        room_bytes=3 * GIB,
    ),
    GpuCheck(
        name="cuda_malloc_async",
        what="tensorflow: CUDA's own pool is counted",
        run=asynchronous,
        needs=("tensorflow", "keras"),
        alone=False,
        room_bytes=3 * GIB,
    ),
    *(
        GpuCheck(
            name=name,
            what=f"tensorflow: whether a process outlives an out-of-memory, {how} XLA",
            run=partial(again, xla=xla),
            needs=("tensorflow", "keras"),
            alone=False,
            room_bytes=5 * GIB,
        )
        for name, how, xla in (("again", "without", False), ("again_xla", "with", True))
    ),
    *(
        GpuCheck(
            name=f"limited_{backend}",
            what=f"{backend}: the toolbox' limit of a process, and growth without one",
            run=partial(limited, backend=backend),
            needs=(backend, "keras"),
            room_bytes=4 * GIB,
        )
        for backend in ("tensorflow", "torch")
    ),
    GpuCheck(
        name="figures_jax",
        what="jax: what its allocator counts",
        run=partial(figures, backend="jax"),
        needs=("jax",),
        room_bytes=3 * GIB,
    ),
    GpuCheck(
        name="figures_torch",
        what="torch: what its allocator counts",
        run=partial(figures, backend="torch"),
        needs=("torch",),
        room_bytes=3 * GIB,
    ),
)
