"""Autopsies: each kind of shortage is told by its figures, and who held what."""

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.examination import examined as with_autopsy
from supervisor.core.diagnosis.explain_memory import VERDICTS, autopsy_paragraph
from supervisor.core.diagnosis.result import Diagnosis
from supervisor.core.gpu.gpu_readings import Gpu, GpuMemory, GpuProcess
from supervisor.core.memory.bfc_map import Chunk, MemoryMap
from supervisor.core.memory.figures import MemoryFigures, OomVerdict
from supervisor.core.memory.forecast import Forecast, Resource
from supervisor.core.memory.oom_analysis import (
    Holder,
    NamedChunk,
    OomAnalysis,
    OomFindings,
    autopsy_of,
    names_of,
    op_in,
    shape_in,
)
from supervisor.wire.messages.memory_answer import (
    BATCH,
    HeldObject,
    MemoryAnswer,
    Variable,
)
from supervisor.wire.records.oom_subject import OomSubject

MIB, GIB = 2**20, 2**30
SHORT = MemoryFigures(
    limit_bytes=600 * MIB,
    in_use_bytes=500 * MIB,
    requested_bytes=200 * MIB,
    largest_free_bytes=100 * MIB,
    pool_bytes=600 * MIB,
    free_bytes=100 * MIB,
    growth_bytes=0,
)
IN_PIECES = MemoryFigures(
    limit_bytes=600 * MIB,
    in_use_bytes=300 * MIB,
    requested_bytes=200 * MIB,
    largest_free_bytes=90 * MIB,
    pool_bytes=600 * MIB,
    free_bytes=300 * MIB,
    growth_bytes=0,
)
OVERSIZE = MemoryFigures(limit_bytes=600 * MIB, requested_bytes=700 * MIB)
ROOM_TO_GROW = MemoryFigures(
    limit_bytes=600 * MIB,
    in_use_bytes=100 * MIB,
    requested_bytes=200 * MIB,
    free_bytes=0,
    growth_bytes=500 * MIB,
)
TENANT = GpuProcess(pid=42, name="other", bytes=300 * MIB)


def growing(resource: Resource, per_second: float) -> Forecast:
    """A hundred seconds of growth."""
    return Forecast(
        resource=resource,
        seconds=5.0,
        confidence=0.9999,
        used=9.0,
        capacity=10.0,
        growth=per_second,
        grown=100 * per_second,
        watched_seconds=100.0,
    )


def examined(cause: Cause, memory: MemoryFigures | None, **known: Any) -> OomAnalysis:
    """The autopsy, which there is."""
    found = autopsy_of(cause, memory, OomFindings(**known))
    assert found is not None
    return found


LEAKING = (growing(Resource.DEVICE, 2 * MIB),)
SLOW = (growing(Resource.DEVICE, MIB / 2),)


@pytest.mark.parametrize(
    ("cause", "memory", "known", "expected"),
    [
        (Cause.DEVICE_OOM, SHORT, {}, OomVerdict.CAPACITY),
        (Cause.DEVICE_OOM, SHORT, {"forecasts": LEAKING}, OomVerdict.LEAK),
        (Cause.DEVICE_OOM, SHORT, {"forecasts": SLOW}, OomVerdict.CAPACITY),
        (Cause.DEVICE_OOM_FRAGMENTATION, IN_PIECES, {}, OomVerdict.FRAGMENTATION),
        (Cause.DEVICE_OOM, OVERSIZE, {"tenants": (TENANT,)}, OomVerdict.OVERSIZE),
        (Cause.DEVICE_OOM, ROOM_TO_GROW, {}, OomVerdict.CAPACITY),
        (
            Cause.DEVICE_OOM,
            ROOM_TO_GROW,
            {"tenants": (TENANT,)},
            OomVerdict.FOREIGN_TENANT,
        ),
        (
            Cause.DEVICE_OOM,
            ROOM_TO_GROW,
            {"unnamed_bytes": 300 * MIB},
            OomVerdict.FOREIGN_TENANT,
        ),
        (Cause.DEVICE_OOM, SHORT, {"tenants": (TENANT,)}, OomVerdict.CAPACITY),
        (Cause.HOST_OOM, None, {}, OomVerdict.HOST),
        (Cause.DEVICE_OOM, None, {}, None),
        (Cause.DEVICE_OOM, None, {"forecasts": LEAKING}, OomVerdict.LEAK),
        (Cause.DEVICE_OOM_FRAGMENTATION, None, {}, OomVerdict.FRAGMENTATION),
        (Cause.DEVICE_OOM, MemoryFigures(), {}, None),
    ],
)
def test_verdicts(
    cause: Cause,
    memory: MemoryFigures | None,
    known: dict[str, Any],
    expected: OomVerdict | None,
) -> None:
    """The figures decide, and who else is there, and whether it had grown."""
    assert examined(cause, memory, **known).verdict is expected


def test_other_ends_have_none() -> None:
    """Only a shortage of memory has an autopsy."""
    assert autopsy_of(Cause.USER_ERROR, None, OomFindings()) is None


def test_growth_of_another_resource_is_none() -> None:
    """A growing host explains no exhausted device."""
    forecasts = (growing(Resource.HOST, MIB),)
    assert examined(Cause.DEVICE_OOM, SHORT, forecasts=forecasts).growth is None
    host = examined(Cause.HOST_OOM, None, forecasts=forecasts).growth
    assert host is not None
    assert host.grown_bytes == 100 * MIB


IN_A_STEP = (
    "{{function_node __inference_one_step_on_data_302}} OOM when allocating tensor\n"
    "\t [[{{node sequential_1/conv2d_1/Relu}}]] [Op:__inference_multi_step_on_iterator_3]"
)
DETECTED = (
    "Detected at node gradient_tape/dense/MatMul defined at (most recent call last):\n"
    "{{function_node __inference_x_3}} [[{{node StatefulPartitionedCall}}]]"
)


@pytest.mark.parametrize(
    ("text", "op"),
    [
        ("... [[{{node sequential_1/conv2d/convolution}}]]", "sequential_1/conv2d/convolution"),
        ("{{function_node __wrapped__Fill_device_X}} OOM ... [Op:Fill] name: ", "Fill"),
        ("Node: 'StatefulPartitionedCall'", "StatefulPartitionedCall"),
        (IN_A_STEP, "sequential_1/conv2d_1/Relu"),
        (DETECTED, "gradient_tape/dense/MatMul"),
        ("[[node model/conv1d/Conv1D (defined at train.py:3) ]] [Op:__inference_f_1]",
         "model/conv1d/Conv1D"),
        ("{{function_node __wrapped__AddV2_device_/job:localhost}} OOM", "AddV2"),
        ("to allocate 16MiB requested by op AddV2\n[[{{node x/Relu}}]]", "AddV2"),
        ("[Op:__inference_train_function_660]", None),
        ("nothing", None),
    ],
)  # fmt: skip
def test_the_op(text: str, op: str | None) -> None:
    """A node of a graph, or an eager op; the runtime's own cover is none."""
    assert op_in(text) == op


def test_the_shape() -> None:
    """Shape and type, where the sentence has them."""
    text = "OOM when allocating tensor with shape[512,64] and type float on /job:x"
    assert shape_in(text) == ((512, 64), "float")
    assert shape_in("OOM when allocating tensor with shape[]") == ((), None)
    assert shape_in("no") == (None, None)


ANSWER = MemoryAnswer(
    reason="asked",
    step=7,
    at=1.0,
    jit=False,
    variables=(
        Variable("model:dense/kernel", 40 * MIB, 0x1000),
        Variable("optimizer:adam/m", 80 * MIB, 0x2000),
        Variable("model:dense/bias", MIB, None),
        Variable("metric:count", 0, None),
    ),
    kept=(
        HeldObject("Keeper.kept", "tensor", 30, 60 * MIB, "float32 (512, 1024)"),
        HeldObject("__main__.cache", "array", 9, 500 * MIB, "float32 (9,)"),
    ),
)
MAP = MemoryMap(
    allocator="bfc",
    chunks=(
        Chunk(address=0x1000, size=41 * MIB, requested_size=1, in_use=True),
        Chunk(address=0x2000, size=80 * MIB, requested_size=1, in_use=True),
        Chunk(
            address=0x3000, size=MIB, requested_size=1, in_use=True, op_name="Conv2D"
        ),
        Chunk(address=0x4000, size=500 * MIB, requested_size=0, in_use=False),
    ),
)


STEP = "the step that failed (activations, gradients, workspace)"


def test_who_held_what() -> None:
    """Variables by group, what the script keeps, the rest, and the step itself."""
    found = examined(
        Cause.DEVICE_OOM,
        SHORT,
        answer=ANSWER,
        memory_map=MAP,
        between_steps_bytes=200 * MIB,
        subject=OomSubject.STEP,
    )
    assert found.holders == (
        Holder(what=STEP, bytes=300 * MIB),
        Holder(what="variables: optimizer", bytes=80 * MIB, count=1),
        Holder(
            what="kept by Keeper.kept: float32 (512, 1024)", bytes=60 * MIB, count=30
        ),
        Holder(what="variables: model", bytes=41 * MIB, count=2),
        Holder(
            what="between steps, by others (input pipeline, caches)", bytes=19 * MIB
        ),
    )
    assert found.largest == (
        NamedChunk(bytes=80 * MIB, name="optimizer:adam/m"),
        NamedChunk(bytes=41 * MIB, name="model:dense/kernel"),
        NamedChunk(bytes=MIB, name="Conv2D"),
    )
    assert asdict(found)["holders"][0]["what"] == STEP


@pytest.mark.parametrize(
    ("subject", "said"),
    [
        (OomSubject.STEP, STEP),
        (OomSubject.EVALUATION, STEP.replace("step", "step of the validation")),
        (OomSubject.OPTIMIZER, "taken since the last step ended"),
        (None, "taken since the last step ended"),
    ],
)
def test_what_was_taken_since_is_a_steps_where_a_step_failed(
    subject: OomSubject | None, said: str
) -> None:
    """The state of an optimizer that was being made is no working memory of a step."""
    found = examined(
        Cause.DEVICE_OOM,
        SHORT,
        answer=ANSWER,
        between_steps_bytes=200 * MIB,
        subject=subject,
    )
    assert found.holders[0] == Holder(what=said, bytes=300 * MIB)


@pytest.mark.parametrize("between", [None, 0, 200 * MIB, 900 * MIB])
@pytest.mark.parametrize("answer", [None, ANSWER])
@pytest.mark.parametrize("subject", [None, OomSubject.STEP])
def test_shares_add_up_to_what_was_in_use(
    between: int | None, answer: MemoryAnswer | None, subject: OomSubject | None
) -> None:
    """Also in the first step, before which nobody has seen what lay there; and where more
    lay there between steps than there was in use."""
    found = examined(
        Cause.DEVICE_OOM,
        SHORT,
        answer=answer,
        between_steps_bytes=between,
        subject=subject,
    )
    assert sum(one.bytes for one in found.holders) == SHORT.in_use_bytes


def test_the_first_step_is_told_with_what_it_cannot_be_told_from() -> None:
    """Nobody claims that all of it was its own."""
    first = examined(Cause.DEVICE_OOM, SHORT, answer=ANSWER, subject=OomSubject.STEP)
    rest = 500 * MIB - 181 * MIB
    assert first.holders[0] == Holder(
        what=f"{STEP}, and all that nobody names", bytes=rest
    )
    (untold,) = examined(Cause.DEVICE_OOM, SHORT).holders
    assert untold.what == "variables, and whatever is kept"


def test_who_held_what_where_training_does_not_say() -> None:
    """On JAX and PyTorch, say: what was there between steps is not called others'."""
    found = examined(Cause.DEVICE_OOM, SHORT, between_steps_bytes=200 * MIB)
    assert Holder(
        what="between steps (variables, and whatever is kept)", bytes=200 * MIB
    ) in (found.holders)


def test_who_held_what_of_the_host() -> None:
    """Arrays are in main memory, and variables are not."""
    found = examined(Cause.HOST_OOM, None, answer=ANSWER, between_steps_bytes=9)
    assert found.holders == (
        Holder(what="kept by __main__.cache: float32 (9,)", bytes=500 * MIB, count=9),
    )


def test_little_is_known() -> None:
    """Between steps all may be claimed, and what the step took may be unknown."""
    found = examined(Cause.DEVICE_OOM, None, answer=ANSWER, between_steps_bytes=MIB)
    assert [one.what for one in found.holders] == [
        "variables: optimizer",
        "kept by Keeper.kept: float32 (512, 1024)",
        "variables: model",
    ]


def test_every_verdict_has_a_sentence() -> None:
    """No verdict is told by its name alone."""
    assert set(VERDICTS) == set(OomVerdict)


def test_a_paragraph() -> None:
    """Verdict, figures, who asked, growth, who held it, and who else is there."""
    found = examined(
        Cause.DEVICE_OOM_FRAGMENTATION,
        IN_PIECES,
        answer=ANSWER,
        between_steps_bytes=200 * MIB,
        jit=False,
        forecasts=LEAKING,
        tenants=(TENANT,),
        unnamed_bytes=40 * MIB,
        text="OOM when allocating tensor with shape[512,64] and type float [Op:MatMul]",
        subject=OomSubject.STEP,
    )
    memory = {"free_bytes": 300 * MIB, "largest_free_bytes": 90 * MIB}
    text = autopsy_paragraph(asdict(found), memory)
    used = autopsy_paragraph(asdict(found), {**memory, "in_use_bytes": 300 * MIB})
    assert f"Who held the 300 MiB in use: 100 MiB {STEP}; " in used
    for part in (
        "The verdict is fragmentation",
        "300 MiB were free, the largest block 90 MiB.",
        "MatMul asked for a tensor of 512 x 64 (float). XLA was off.",
        "had grown by 200 MiB in 1 min 40 s.",
        f"Who held it: 100 MiB {STEP}; 80 MiB variables: optimizer (1); ",
        "; and 1 more.",
        "Others on the device: 300 MiB process 42 (other); ",
        "40 MiB processes that the driver does not name",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"asked_by": "Fill"}, "Fill asked for it."),
        (
            {"shape": (), "dtype": None},
            "An op that is not named asked for a tensor of a single value.",
        ),
        ({"jit": True}, "XLA compiled the step."),
        ({"verdict": OomVerdict.FRAGMENTATION}, VERDICTS[OomVerdict.FRAGMENTATION]),
        (
            {"growth": {"bytes_per_second": 0.0, "grown_bytes": 0.0}},
            "0 bytes in 0.0 s.",
        ),
    ],
)
def test_a_paragraph_of_little(known: dict[str, Any], said: str) -> None:
    """What is not known is left out."""
    nothing = asdict(examined(Cause.DEVICE_OOM, None))
    assert autopsy_paragraph(nothing, None) == ""
    assert autopsy_paragraph(None, None) == ""
    assert said in autopsy_paragraph({**nothing, **known}, None)


BOX = (
    Gpu(
        uuid="GPU-a",
        index=0,
        memory=GpuMemory(total=8 * GIB, used=6 * GIB, free=2 * GIB),
        processes=(),
    ),
    Gpu(
        uuid="GPU-b",
        index=1,
        memory=GpuMemory(total=8 * GIB, used=0, free=8 * GIB),
        processes=(GpuProcess(pid=9, name="x", bytes=GIB),),
    ),
)


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ([0], ["processes that the driver does not name (of another container, say)"]),
        ([1], ["process 9 (x)"]),
        (["GPU-z"], []),
    ],
)
def test_who_else_is_on_the_gpus_of_the_run(
    wanted: list[int | str], told: list[str]
) -> None:
    """By the reading at the end; what others do on the other GPUs of the box is theirs."""
    diagnosis = Diagnosis(cause=Cause.DEVICE_OOM, because=(), memory=ROOM_TO_GROW)
    found = with_autopsy(
        diagnosis, Evidence(exit=None, gpus=BOX), wanted=wanted
    ).autopsy
    assert found is not None
    assert [one.what for one in found.tenants] == told
    verdict = OomVerdict.FOREIGN_TENANT if told else OomVerdict.CAPACITY
    assert found.verdict is verdict


def test_nobody_is_on_the_gpus_of_a_run_on_the_cpu() -> None:
    """It ran out under the limit that we set; who holds a GPU is not to blame."""
    diagnosis = Diagnosis(cause=Cause.DEVICE_OOM, because=(), memory=ROOM_TO_GROW)
    evidence = Evidence(exit=None, gpus=BOX, limited=True)
    found = with_autopsy(diagnosis, evidence, wanted=None).autopsy
    assert found is not None
    assert found.tenants == ()
    assert found.verdict is OomVerdict.CAPACITY


def test_chunks_have_names_where_anything_gives_one() -> None:
    """A variable, what the script or its data keep, an op; last, the size of a batch."""
    answer = replace(
        ANSWER,
        kept=(
            HeldObject("__main__.table", "tensor", 1, MIB, "float32", (0x1000, 0x5000)),
            HeldObject("a batch", BATCH, 1, 768, "float32 (64, 3)"),
        ),
    )
    chunks = (
        *MAP.chunks,
        Chunk(address=0x5000, size=MIB, requested_size=768, in_use=True),
        Chunk(address=0x6000, size=1024, requested_size=768, in_use=True),
        Chunk(address=0x7000, size=1024, requested_size=768, in_use=False),
        Chunk(address=0x8000, size=1024, requested_size=700, in_use=True),
    )
    assert names_of(answer, chunks) == {
        0x1000: "model:dense/kernel",
        0x2000: "optimizer:adam/m",
        0x3000: "Conv2D",
        0x5000: "kept by __main__.table",
        0x6000: "by its size a batch of the data: float32 (64, 3)",
    }
    assert names_of(None, chunks) == {0x3000: "Conv2D"}
    assert MemoryAnswer.from_json(json.loads(json.dumps(asdict(answer)))) == answer
    old = json.loads(json.dumps(asdict(ANSWER)))
    del old["kept"][0]["addresses"]
    assert MemoryAnswer.from_json(old) == ANSWER
