"""Output of real crashes, our own and other people's, is named right."""

import json
from pathlib import Path
from typing import Any

import pytest

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.diagnose import diagnose_log
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.exit_status import parse_status, record_of
from tests.support.evidence import seen

CORPUS = Path(__file__).with_name("corpus") / "cases.jsonl"
CASES = [json.loads(line) for line in CORPUS.read_text().splitlines()]
PUBLIC = [
    json.loads(line)
    for line in CORPUS.with_name("public.jsonl").read_text().splitlines()
]
"""Short quotes of output that people published, each with where it stands."""
FRESH = [
    json.loads(line)
    for path in sorted(CORPUS.parent.glob("fresh-*.jsonl"))
    for line in path.read_text().splitlines()
]
"""More of them, in batches: each was labelled and committed before the diagnosis saw
it. What it made of them at first look stands in docs/crashes.md. From H on the texts are
rendered: the programs' own messages, with figures, paths and names of ours."""


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
@pytest.mark.parametrize("with_exit", [False, True])
def test_crashes_that_were_provoked(case: dict[str, Any], *, with_exit: bool) -> None:
    """Real output of real crashes is named right, with the exit status and without."""
    evidence = None
    if with_exit:
        record = record_of(*(parse_status(str(case["exit"])) or (None, None)))
        evidence = Evidence(exit=record, finished=record.exit_code == 0)
    diagnosis = diagnose_log(seen(case["text"]), evidence=evidence)
    assert diagnosis.cause == case["cause"]
    assert bool(diagnosis.because) == (diagnosis.cause is not Cause.NONE)


MISSED = {
    "w-determined-trial-terminated",  # told as information, and it exited with zero
    "w-horovod-tf-stalled-shapes",  # a warning, after which others went on
    "w-horovod-resnet-stalled",  # the same
    "p-triang-oom",  # 92 MiB were free in the pool, 32 asked for: as we count, fragmentation
    "p-dcrnn-oom",  # so it is here: 256 MiB and 20
    "t-fluxwebui-hip-oom",  # and here: 254 MiB and 72
    "u-ray-pending",  # how long no trial began, the head of a table alone tells
    "q-metamon-eof",  # a worker's pipe ended: an EOFError, of data for all that it says
    "n-kerascontrib-nofile",  # a file of data or of the script: nobody can tell
    "n-jetson-hang",  # what hung before Ctrl-C, the thread alone tells
    "n-coolgpus-dstate",  # of a process that is no training
    "o-digits-minus9",  # the status is told first, and what the script printed after it
    "e-phase-failed",  # told as information, and nothing else
    "e-rocm-smi-unreadable",  # so do healthy containers
    "g-one-camera",  # a traceback without its first line and its last
    "f-subproc-eof",  # an EOFError tells of data, where no frame says otherwise
    "f-colab-signal-thread",  # an exception that was logged as a warning
    "f-lichtfeld-save-failed",  # a warning, after which training goes on
    "j-pl-resume-oom",  # 532 MiB were free in the pool: as we count, in no such block
    "k-kern-uvm-dstate",  # a task in D state: unkillable, which no label of H to K was
    "k-rocm-hung-task",  # the same
}
"""What is not named right, and for what reason not."""


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case,
            id=case["id"],
            marks=[pytest.mark.xfail(strict=True)] if case["id"] in MISSED else [],
        )
        for case in PUBLIC + FRESH
    ],
)
def test_output_that_people_published(case: dict[str, Any]) -> None:
    """A few lines of other people's crashes, or of none, are named right."""
    answer = diagnose_log(seen(case["text"])).cause
    assert answer in {case["cause"], *case["also"]}


def test_no_source_is_told_twice() -> None:
    """What one batch taught is no first look in the next."""
    ids = [case["id"] for case in CASES + PUBLIC + FRESH]
    assert len(set(ids)) == len(ids)
    texts = [case["text"] for case in PUBLIC + FRESH]
    assert len(set(texts)) == len(texts)
