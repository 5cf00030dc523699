"""Checks of training on the GPU: killed and resumed, out of memory, faulted, crowded."""

import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

from tests.gpu.chosen_gpu import GIB
from tests.gpu.driver_checks import OTHER_PIDS
from tests.gpu.driver_probe import probing
from tests.gpu.gpu_check import (
    MOST_SAID,
    CheckFacts,
    CheckPlace,
    GpuCheck,
    SkippedError,
    until,
)

ROOM_BYTES = 6 * GIB
"""With less free, the steps below are no larger than what a framework begins with."""
LEFT = 1536 * 2**20
"""Bytes that another process leaves: enough to begin, not for a step."""
PATIENCE_SECONDS = 60.0

DETERMINISTIC: dict[str, dict[str, str]] = {
    "tensorflow": {},
    "jax": {"XLA_FLAGS": "--xla_gpu_deterministic_ops=true"},
    "torch": {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"},
}
"""What a script of that framework has in its environment to compute the same twice."""
BESIDE: dict[str, dict[str, str]] = {
    "tensorflow": {},
    "jax": {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
    "torch": {},
}
"""... to leave memory for others beside it. TensorFlow is told so by us."""
LARGE = {"BATCH": "512", "WIDTH": "64", "PIXELS": "128", "STEPS": "3", "EPOCHS": "2"}
"""A step of ``LARGE_STEP_BYTES``: activations of 2 GiB each."""
LARGE_STEP_BYTES = 13 * GIB
LIMITED: dict[str, dict[str, str]] = {
    "tensorflow": {},
    "jax": {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.06"},
    "torch": {"FRACTION": "0.06"},
}
"""How the framework is held to 5 GiB of 80; TensorFlow by our spec."""

SPEC = """
script = "{script}"
name = "{name}"

[memory]
gpu = "{limit}"
"""


def run_of(
    place: CheckPlace,
    seen: CheckFacts,
    name: str,
    environment: Mapping[str, str],
    *,
    fitted: bool = True,
) -> dict[str, Any]:
    """A supervised run of ``convolutions.py``: its incidents and its end, kept as facts.
    Its sizes are ``fitted`` to the GPU, unless they are already."""
    more = place.gpu.fitted(environment) if fitted else environment
    done = place.trainwarden(
        "run", "--name", name, place.script("convolutions"), more=more
    )
    return kept(place, seen, name, done)


def kept(
    place: CheckPlace,
    seen: CheckFacts,
    name: str,
    done: subprocess.CompletedProcess[str],
) -> dict[str, Any]:
    """What a run left behind, and the end of what it said."""
    incidents = place.incidents()
    job = place.status()
    facts: dict[str, Any] = {
        "exit_code": done.returncode,
        "exact": job.get("exact"),
        "promise": job.get("promise"),
        "attempts": job.get("attempt"),
        "slices": job["microbatch"]["slices"] if job else None,
        "memory_peak_bytes": job.get("memory_peak_bytes"),
        "memory_limit_bytes": job.get("memory_limit_bytes"),
        "incidents": [
            {
                "cause": one["cause"],
                "because": [said["text"] for said in one["because"]],
                "remedy": one["remedy"],
                "proof": one["proof"] and one["proof"]["result"],
                "memory": one.get("memory"),
                "downtime_seconds": one["downtime_seconds"],
            }
            for one in incidents
        ],
        "said": done.stdout[-MOST_SAID:],
    }
    seen.facts[name] = facts
    return facts


def causes(facts: dict[str, Any]) -> list[str]:
    """Of a run's incidents, in order."""
    return [one["cause"] for one in facts["incidents"]]


def result_of(place: CheckPlace, name: str) -> str:
    """What the script wrote at its end; empty: it did not come to its end."""
    path = place.directory / name
    return path.read_text() if path.exists() else ""


def common_of(backend: str) -> dict[str, str]:
    """For a script that computes the same twice, beside others."""
    told = {**BESIDE[backend], **DETERMINISTIC[backend]}
    return {"KERAS_BACKEND": backend, "EXACT": "1", **told}


def undisturbed(place: CheckPlace, seen: CheckFacts, common: dict[str, str]) -> str:
    """What the script writes without us; memory grows as under us."""
    growth = {"GROWTH": "1"} if common["KERAS_BACKEND"] == "tensorflow" else {}
    told = {"OUT": "plain", **common, **growth}
    plain = place.python(place.script("convolutions"), more=told)
    seen.expect(plain.returncode == 0, plain.stdout[-MOST_SAID:])
    seen.facts["device"] = plain.stdout[plain.stdout.rfind("device") :].strip()[:200]
    return result_of(place, "plain")


def resumed(place: CheckPlace, *, backend: str) -> CheckFacts:
    """Killed in its second epoch, with deterministic algorithms: the same bits.

    And its allocator was read to the end.
    """
    seen = CheckFacts()
    common = common_of(backend)
    plain = undisturbed(place, seen, common)
    facts = run_of(place, seen, "killed", {"DIE": "died", "OUT": "resumed", **common})
    after = result_of(place, "resumed")
    seen.expect(plain == after, f"undisturbed {plain}, resumed {after}")
    seen.expect(causes(facts) == ["preempted"], f"named as {causes(facts)}")
    device = seen.facts["device"].lower()
    seen.expect("gpu" in device or "cuda" in device, f"trained on {device}")
    read = seen.facts["memory"] = place.json("memory", "killed")
    known = {"source", "in_use_bytes", "peak_bytes", "limit_bytes", "pool_bytes"}
    if backend != "tensorflow":  # whose operations may not be built in so short a time
        unread = sorted(name for name in known if read.get(name) is None)
        seen.expect(not unread, f"not read of the allocator: {unread}")
    return seen


def unpromised(place: CheckPlace, *, backend: str) -> CheckFacts:
    """The same without deterministic algorithms: no promise of bits is given."""
    seen = CheckFacts()
    environment = {"KERAS_BACKEND": backend, **BESIDE[backend], "DIE": "died"}
    facts = run_of(place, seen, "killed", environment)
    seen.expect(facts["exit_code"] == 0, facts["said"])
    seen.expect(facts["exact"] is False, f"exact: {facts['exact']}, {facts['promise']}")
    return seen


def out_of_memory(place: CheckPlace, *, backend: str, xla: str = "") -> CheckFacts:
    """A step needs more than the framework may have: the cause is named, and the batch
    worked through in slices. ``xla``: 0 trains without."""
    seen = CheckFacts()
    environment = {
        "KERAS_BACKEND": backend,
        **LARGE,
        **LIMITED[backend],
        "OUT": "out",
        "XLA": xla,
    }
    if backend == "tensorflow":
        facts = run_limited(place, seen, "large", "6GiB", environment)
    else:
        facts = run_of(place, seen, "large", environment)
    seen.expect(facts["exit_code"] == 0, facts["said"])
    seen.expect((facts["slices"] or 1) > 1, f"slices: {facts['slices']}")
    if backend == "jax":  # by XLA's analysis: a size that was tried in vain shows
        seen.expect(facts["attempts"] == 2, f"attempts: {facts['attempts']}")
    seen.expect(causes(facts)[:1] == ["device_oom"], f"named as {causes(facts)}")
    return seen


def run_limited(
    place: CheckPlace,
    seen: CheckFacts,
    name: str,
    limit: str,
    environment: Mapping[str, str],
) -> dict[str, Any]:
    """A run whose spec limits the memory of the GPU: to ``limit``, or half of what is
    free."""
    least = place.gpu.at_most(int(limit.removesuffix("GiB")) * GIB)
    spec = place.directory / f"{name}.toml"
    script = place.script("convolutions")
    spec.write_text(SPEC.format(script=script, name=name, limit=f"{least >> 20}MiB"))
    more = place.gpu.fitted(environment)
    done = place.trainwarden("run", "--spec", spec, more=more)
    return kept(place, seen, name, done)


def limited_twice(place: CheckPlace) -> CheckFacts:
    """The script asks for memory growth of its own, where a limit is ours."""
    seen = CheckFacts()
    environment = {"KERAS_BACKEND": "tensorflow", "GROWTH": "1", "OUT": "out"}
    facts = run_limited(place, seen, "growth", "4GiB", environment)
    seen.expect(facts["exit_code"] == 0, facts["said"])
    seen.expect(not facts["incidents"], f"incidents: {causes(facts)}")
    return seen


def whole_device(place: CheckPlace, *, backend: str) -> CheckFacts:
    """A step that needs more than the whole GPU has."""
    seen = CheckFacts()
    total = place.gpu.total_bytes
    # Activations of 4 MiB a sample and tensor, some six of them at once.
    batch = str(int(1.6 * total / (6 * 4 * 2**20)))
    environment = {**LARGE, "BATCH": batch, "STEPS": "1", "KERAS_BACKEND": backend}
    facts = run_of(place, seen, "large", environment, fitted=False)
    seen.expect(causes(facts)[:1] == ["device_oom"], f"named as {causes(facts)}")
    seen.expect(facts["exit_code"] == 0, facts["said"])
    return seen


def crowded(place: CheckPlace, *, backend: str) -> CheckFacts:
    """Another process holds nearly all of the GPU: it is named, and waited for."""
    seen = CheckFacts()
    with probing(1.0) as probe:
        memory = probe.line().gpu.memory
    free = memory.free if memory else 0
    if free < ROOM_BYTES:
        message = f"only {free >> 20} MiB of the GPU are free by now"
        raise SkippedError(message)
    # More than is left, and less than there is once the other one has gone.
    part = min(1.0, 0.6 * free / LARGE_STEP_BYTES)
    batch = str(int(int(LARGE["BATCH"]) * part) // 8 * 8)
    environment = {
        "KERAS_BACKEND": backend, **BESIDE[backend], **LARGE, "BATCH": batch, "OUT": "out",
    }  # fmt: skip
    script = place.script("convolutions")
    with ExitStack() as held:
        pid = held.enter_context(place.holding(free - LEFT))
        seen.facts["holder"] = pid
        run = held.enter_context(
            place.started("run", "--name", "crowded", script, more=environment)
        )
        until(lambda: bool(place.incidents()), PATIENCE_SECONDS, every=2.0)
        seen.facts["while_crowded"] = place.status()
        place.released(pid)
        seen.expect(run.ended(PATIENCE_SECONDS), "it did not end once there was room")
    facts = kept(place, seen, "crowded", run.done)
    told = [
        text
        for one in facts["incidents"]
        for text in (*one["because"], one["remedy"]["because"])
    ]
    if place.gpu.pids_compare:
        seen.expect(any(str(pid) in text for text in told), f"not named: {told}")
    else:
        seen.left_out.append(OTHER_PIDS)
    seen.expect(facts["exit_code"] == 0, facts["said"])
    return seen


def faulted(place: CheckPlace, *, backend: str) -> CheckFacts:
    """A kernel of its own process faults once: named, and resumed in a fresh process."""
    seen = CheckFacts()
    common = common_of(backend)
    plain = undisturbed(place, seen, common)
    facts = run_of(place, seen, "faulted", {"FAULT": "fault", "OUT": "out", **common})
    seen.expect(causes(facts) == ["cuda_fault"], f"named as {causes(facts)}")
    seen.expect(facts["exit_code"] == 0, facts["said"])
    seen.expect(plain == result_of(place, "out"), "other bits than undisturbed")
    return seen


def for_each(*backends: str) -> tuple[GpuCheck, ...]:
    """The checks of training, by framework."""
    rows = (
        ("resumed", "killed and resumed on the GPU: the same bits", resumed, False),
        ("unpromised", "no promise of bits without determinism", unpromised, False),
        ("oom", "out of memory under a limit, and its end", out_of_memory, False),
        ("faulted", "a kernel faults in training: named, resumed", faulted, False),
        ("crowded", "another process has the memory", crowded, True),
        ("whole", "a step larger than the GPU", whole_device, True),
    )
    return tuple(
        GpuCheck(
            name=f"{name}_{backend}",
            what=f"{backend}: {what}",
            run=partial(run, backend=backend),
            needs=(backend, "keras"),
            alone=alone,
            room_bytes=ROOM_BYTES,
            faults=run is faulted,
        )
        for name, what, run, alone in rows
        for backend in backends
    )


CHECKS = (
    *for_each("tensorflow", "jax", "torch"),
    GpuCheck(
        name="oom_plain_tensorflow",
        what="tensorflow: out of memory under a limit, without XLA, and its end",
        run=partial(out_of_memory, backend="tensorflow", xla="0"),
        needs=("tensorflow", "keras"),
        alone=False,
        room_bytes=ROOM_BYTES,
    ),
    GpuCheck(
        name="growth",
        what="tensorflow: a script that sets memory growth, under a limit of ours",
        run=limited_twice,
        needs=("tensorflow", "keras"),
        alone=False,
        room_bytes=ROOM_BYTES,
    ),
)
