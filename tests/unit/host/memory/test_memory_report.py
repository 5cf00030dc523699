"""A job's memory, on request: asked of a process that answers, or left behind."""

import json
import os
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from supervisor.cli.commands.memory_command import (
    RunPeak,
    draw,
    figure_lines,
    report_json,
    run_peak,
)
from supervisor.core.memory.figures import MemoryFigures
from supervisor.host.exporter.allocator_status import completed
from supervisor.host.exporter.gpu_query import gpus_once
from supervisor.host.memory.memory_report import (
    MemoryReport,
    ask,
    kept_report,
    live_report,
)
from supervisor.runtime.recording.job_locator import JobFiles
from supervisor.wire.messages.memory_answer import HeldObject, MemoryAnswer, Variable
from supervisor.wire.page import MemorySource, PageWriter
from supervisor.wire.paths import AttemptPaths
from supervisor.wire.records.end_records import CrashReport
from supervisor.wire.records.oom_subject import OomSubject
from tests.support.fake_nvml import GIB, FakeNvml

MIB = 2**20
NO_PEAK = RunPeak(bytes=None, limit_bytes=None)


def varint(value: int) -> bytes:
    """A base-128 number."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def part(number: int, content: bytes) -> bytes:
    """A field of bytes."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def chunk(address: int, size: int, *, in_use: bool) -> bytes:
    """A chunk of a ``MemoryDump``."""
    fields = ((1, address), (2, size), (3, size), (8, int(in_use)))
    return part(3, b"".join(varint(n << 3) + varint(v) for n, v in fields))


MAP = (
    part(1, b"GPU_0_bfc")
    + chunk(0x1000, 8 * MIB, in_use=True)
    + chunk(0x9000, 2 * MIB, in_use=False)
)
ANSWER = MemoryAnswer(
    reason="asked",
    step=7,
    at=1.0,
    jit=True,
    variables=(Variable("model:dense/kernel", 6 * MIB, 0x1000),),
    kept=(HeldObject("Keeper.kept", "tensor", 2, MIB, "float32 (9,)"),),
)


@pytest.fixture
def files(tmp_path: Path) -> AttemptPaths:
    """An attempt with a page."""
    writer = PageWriter(AttemptPaths(tmp_path).page)
    writer.set(
        step=7,
        memory_limit_bytes=20 * MIB,
        memory_in_use_bytes=8 * MIB,
        memory_source=int(MemorySource.MAP),
    )
    return AttemptPaths(tmp_path)


def answer_once(files: AttemptPaths, value: dict[str, Any]) -> threading.Thread:
    """Answer as training does: at the next step."""

    def work() -> None:
        deadline = time.monotonic() + 30
        while not files.memory_request.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        files.memory_request.unlink()
        files.memory_map.write_bytes(MAP)
        partial = files.memory_answer.with_suffix(".tmp")
        partial.write_text(json.dumps(value))
        partial.rename(files.memory_answer)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def of_run(peak_bytes: int | None, limit_bytes: int | None) -> JobFiles:
    """A run with that peak."""
    return JobFiles(
        job="digits",
        run_id="1",
        directory="/none",
        attempt=2,
        spec={},
        device_peak_bytes=peak_bytes,
        device_limit_bytes=limit_bytes,
    )


def test_the_peak_of_the_run_is_that_of_all_attempts(files: AttemptPaths) -> None:
    """An earlier attempt may have needed more than this one; or this one already more
    than anybody has written down."""
    PageWriter(files.page).set(
        memory_peak_bytes=5 * MIB, memory_limit_bytes=9 * MIB, memory_source=1
    )
    report = kept_report(files, 2)
    earlier = run_peak(of_run(7 * MIB, 8 * MIB), report)
    assert earlier == RunPeak(bytes=7 * MIB, limit_bytes=8 * MIB)
    newer = RunPeak(bytes=5 * MIB, limit_bytes=9 * MIB)
    assert run_peak(of_run(4 * MIB, 8 * MIB), report) == newer
    assert run_peak(of_run(None, None), report) == newer
    unlimited = replace(report, figures=replace(report.figures, limit_bytes=None))
    assert run_peak(of_run(4 * MIB, 9 * MIB), unlimited) == newer
    value = report_json("digits", report, earlier)
    assert (value["peak_bytes"], value["run_peak_bytes"]) == (5 * MIB, 7 * MIB)
    assert value["run_peak_limit_bytes"] == 8 * MIB


def test_who_is_asked_answers(files: AttemptPaths) -> None:
    """The map, its figures, and whose chunk is whose."""
    thread = answer_once(files, asdict(ANSWER))
    answer = ask(files, seconds=30)
    thread.join()
    assert answer is not None
    assert answer == ANSWER
    report = live_report(files, 3, answer)
    value = report_json("digits", report, NO_PEAK)
    assert value["fragmentation"] == 0.0
    assert (value["attempt"], value["step"], value["source"]) == (3, 7, "map")
    assert value["pool_bytes"] == 10 * MIB
    assert value["growth_bytes"] == 10 * MIB
    assert [one["name"] for one in value["chunks"]] == ["model:dense/kernel", ""]
    held = {one["what"]: one["bytes"] for one in value["holders"]}
    assert held == {
        "variables: model": 6 * MIB,
        "kept by Keeper.kept: float32 (9,)": MIB,
        "between steps, by others (input pipeline, caches)": MIB,
    }
    lines = figure_lines(report)
    assert "  allocatable: 10 MiB" in lines
    assert "fragmentation: 0.0%" in lines


def test_an_estimate_is_told_with_what_the_driver_knows(
    files: AttemptPaths, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the allocator's map: limit and pool are the driver's, and it is said that
    it is an estimate."""
    fake = FakeNvml(library, tmp_path / "script")
    fake.gpus(1)
    fake.set({"0.processes": f"{os.getpid()}:{5 * GIB}:{2**32 - 1}"})
    for name, text in fake.environment.items():
        monkeypatch.setenv(name, text)
    PageWriter(files.page).set(
        pid=os.getpid(),
        memory_in_use_bytes=4 * GIB,
        memory_source=int(MemorySource.ESTIMATE),
    )
    report = live_report(
        files, 1, ANSWER, beside=lambda page: completed(page, None, gpus=gpus_once)
    )
    value = report_json("digits", report, NO_PEAK)
    assert (value["source"], value["limit_bytes"]) == ("estimate", 140 * GIB)
    assert (value["pool_bytes"], value["free_bytes"]) == (5 * GIB, GIB)
    assert value["largest_allocatable_bytes"] == 120 * GIB
    assert value["fragmentation"] is None
    lines = figure_lines(report)
    assert "        limit: 140.00 GiB" in lines
    assert "  allocatable: 120.00 GiB" in lines
    assert any("an estimate" in line for line in lines)


def test_who_does_not_answer(files: AttemptPaths) -> None:
    """The request is taken back, and the last figures are what there is."""
    assert ask(files, seconds=0.2) is None
    assert not files.memory_request.exists()
    report = kept_report(files, 3)
    assert (report.live, report.source, report.memory_map) == (False, "map", None)
    assert report.figures.in_use_bytes == 8 * MIB


@pytest.mark.parametrize("trap", ["a link", "a pipe"])
def test_the_request_leads_nobody_astray(files: AttemptPaths, trap: str) -> None:
    """Root may ask for somebody's job: a link in their directory makes no file of root's
    elsewhere, and a pipe holds up nobody."""
    elsewhere = files.root / "elsewhere"
    if trap == "a link":
        files.memory_request.symlink_to(elsewhere)
    else:
        os.mkfifo(files.memory_request)
    with pytest.raises(OSError, match="memory-request"):
        ask(files, seconds=0.2)
    assert not elsewhere.exists()


def test_an_old_answer_is_none(files: AttemptPaths) -> None:
    """What was answered before is not taken for the answer."""
    files.memory_answer.write_text(json.dumps(asdict(ANSWER)))
    assert ask(files, seconds=0.2) is None


def test_what_an_oom_left_behind(files: AttemptPaths) -> None:
    """The map of the failed request counts."""
    files.dumps.mkdir()
    (files.dumps / "oom_GPU_0_bfc.1795271486474869").write_bytes(MAP)
    report = kept_report(files, 3)
    assert report.source == "oom"
    assert report.figures.pool_bytes == 10 * MIB


@pytest.mark.parametrize("subject", [OomSubject.STEP, None])
def test_who_held_it_when_a_step_failed(
    files: AttemptPaths, subject: OomSubject | None
) -> None:
    """What the step took itself is told beside what lay there between steps, and all adds
    up; of a failure that nobody says was a step's it is not called that."""
    PageWriter(files.page).set(step=7, memory_in_use_bytes=7 * MIB)
    files.dumps.mkdir()
    (files.dumps / "oom_GPU_0_bfc.1795271486474869").write_bytes(MAP)
    files.memory_answer.write_text(json.dumps(asdict(replace(ANSWER, kept=()))))
    if subject is not None:
        crash = CrashReport(
            exception="E", message="", traceback="", steps_done=7, in_fit=True,
            memory=subject,
        )  # fmt: skip
        files.crash.write_text(json.dumps(crash.to_json()))
    found = report_json("digits", kept_report(files, 3), NO_PEAK)
    held = {one["what"]: one["bytes"] for one in found["holders"]}
    step = "the step that failed (activations, gradients, workspace)"
    assert held == {
        "variables: model": 6 * MIB,
        "between steps, by others (input pipeline, caches)": MIB,
        step if subject else "taken since the last step ended": MIB,
    }
    assert sum(held.values()) == found["in_use_bytes"] == 8 * MIB


def test_what_a_step_takes_is_told_beside_what_lies_there(
    files: AttemptPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    """A running job is read between steps, when its activations are gone."""
    PageWriter(files.page).set(
        memory_in_use_bytes=8 * MIB, memory_peak_bytes=13 * MIB, memory_source=1
    )
    draw(Console(width=200), "digits", live_report(files, 3, ANSWER), NO_PEAK)
    drawn = capsys.readouterr().out
    assert "step peak: 13 MiB" in drawn
    assert "A step takes up to 5 MiB beside that (activations, gradients" in drawn
    draw(Console(width=200), "digits", kept_report(files, 3), NO_PEAK)
    assert "A step takes" not in capsys.readouterr().out


def test_nothing_is_known(tmp_path: Path) -> None:
    """An attempt without files has a report without figures."""
    report = kept_report(AttemptPaths(tmp_path), 1)
    assert report.figures == MemoryFigures()
    assert figure_lines(report) == []


@pytest.mark.parametrize("answered", [True, False])
def test_the_legend_of_a_map(
    files: AttemptPaths, capsys: pytest.CaptureFixture[str], *, answered: bool
) -> None:
    """What variables hold is told where somebody said which chunks are theirs: it is not
    "0 bytes" of a model whose training ended before it could tell."""
    files.dumps.mkdir()
    (files.dumps / "oom_GPU_0_bfc.1795271486474869").write_bytes(MAP)
    if answered:
        files.memory_answer.write_text(json.dumps(asdict(ANSWER)))
    draw(Console(width=300), "digits", kept_report(files, 3), NO_PEAK)
    (legend,) = (
        line for line in capsys.readouterr().out.splitlines() if "used" in line
    )
    assert legend.strip() == (
        "▓ variables 8 MiB  █ used 0 bytes  · free 2 MiB"
        if answered
        else "█ used 8 MiB  · free 2 MiB"
    )


@pytest.mark.parametrize(
    ("source", "said"), [("estimate", "an estimate"), ("counts", "own counts")]
)
def test_an_estimate_is_called_one(source: str, said: str) -> None:
    """Nobody takes it for the map."""
    report = MemoryReport(
        attempt=1,
        live=True,
        step=1,
        source=source,
        figures=MemoryFigures(in_use_bytes=1),
        largest_allocatable_bytes=None,
        memory_map=None,
        answer=None,
    )
    assert said in figure_lines(report)[-1]


@pytest.mark.parametrize(
    "change",
    [
        {"reason": None, "variables": 7},
        {"variables": [{"name": "x"}]},
        {"kept": [{"where": 1}]},
        {"at": "soon"},
        {"step": [1]},
    ],
)
def test_a_strange_answer_is_none(change: dict[str, Any]) -> None:
    """Whatever the file holds, it is read or it is not; never an exception."""
    value = {**asdict(ANSWER), **change}
    found = MemoryAnswer.from_json(value)
    assert found is None or found.variables == ()
    assert MemoryAnswer.from_json({}) is None
