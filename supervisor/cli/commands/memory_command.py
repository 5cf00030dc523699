"""``memory``: the allocator's map of a job, drawn; who holds what, and in what pieces."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from supervisor.cli.completion import job_argument
from supervisor.cli.options import fail, json_option
from supervisor.cli.sources.daemon_client import box_option
from supervisor.cli.sources.job_lookup import files_of
from supervisor.core.memory.chart import Fill, cells, fill_of
from supervisor.core.memory.oom_analysis import (
    Holder,
    OomFindings,
    holders_of,
    labels,
    names_of,
)
from supervisor.core.text.units import format_size
from supervisor.core.text.visible import visible
from supervisor.host.exporter.allocator_status import completed
from supervisor.host.exporter.gpu_query import gpus_once
from supervisor.host.launch.launcher import read_shimmed, same_process
from supervisor.host.memory.memory_report import (
    MemoryReport,
    ask,
    kept_report,
    live_report,
)
from supervisor.runtime.recording.job_locator import JobFiles
from supervisor.wire.paths import AttemptPaths, RunPaths

COLOURS = {Fill.VARIABLES: "blue", Fill.USED: "red", Fill.FREE: "green"}
LETTERS = {Fill.VARIABLES: "▓", Fill.USED: "█", Fill.FREE: "·"}
ROWS = 6
UNKNOWN = (
    "nothing is known of its device memory: TensorFlow's allocator is read on a GPU, and on a"
    " CPU under --cpu-memory"
)
LISTED = 10


@click.command()
@json_option
@box_option
@click.option(
    "--wait",
    type=float,
    default=10.0,
    show_default=True,
    help="Seconds to wait for the next step boundary.",
)
@job_argument
def memory(*, as_json: bool, state_dir: Path | None, wait: float, job: str) -> None:
    """Draw the memory of JOB: its allocator's map, and who holds what.

    A running job is asked at its next step; of any other, what an out-of-memory
    failure left behind is shown.

    Example: trainwarden memory digits
    """
    found = files_of(state_dir, job)
    report = _report(found, job, wait=wait)
    peak = run_peak(found, report)
    if as_json:
        click.echo(json.dumps(report_json(job, report, peak), indent=2))
    else:
        draw(Console(), job, report, peak)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPeak:
    """The most that an allocator held, of all attempts of a run; None: not known."""

    bytes: int | None
    limit_bytes: int | None


def run_peak(files: JobFiles, report: MemoryReport) -> RunPeak:
    """As ``history`` tells it; of an attempt that runs more may be known by now."""
    known, seen = files.device_peak_bytes, report.figures.peak_bytes
    if seen is not None and (known is None or known < seen):
        limit = report.figures.limit_bytes or files.device_limit_bytes
        return RunPeak(bytes=seen, limit_bytes=limit)
    return RunPeak(bytes=known, limit_bytes=files.device_limit_bytes)


def _report(found: JobFiles, job: str, *, wait: float) -> MemoryReport:
    if not found.attempt:
        fail(f"the job {job!r} has not started an attempt yet")
    files, number = found.paths, found.attempt
    newest = files.attempt(number)
    shimmed = read_shimmed(newest)
    if shimmed is None or not same_process(shimmed):
        return _left_behind(files, number)
    return _asked(newest, number, spec=found.spec, wait=wait)


def _asked(
    files: AttemptPaths, number: int, *, spec: Mapping[str, Any], wait: float
) -> MemoryReport:
    try:
        answer = ask(files, seconds=wait)
    except OSError as error:
        fail(f"cannot ask the attempt in {files.root}: {error.strerror}", exit_code=1)
    if answer is None:
        click.echo(
            f"no step ended within {wait:g} s: these are the last figures", err=True
        )
        return kept_report(files, number)
    memory: dict[str, Any] = spec.get("memory") or {}
    if memory.get("cpu") is not None:
        return live_report(files, number, answer)
    return live_report(
        files,
        number,
        answer,
        beside=lambda page: completed(page, spec.get("gpus"), gpus=gpus_once),
    )


def _left_behind(files: RunPaths, number: int) -> MemoryReport:
    """The newest attempt that left a map, else the newest."""
    reports = (kept_report(files.attempt(n), n) for n in range(number, 0, -1))
    mapped = next((one for one in reports if one.memory_map is not None), None)
    return mapped or kept_report(files.attempt(number), number)


def _holders(report: MemoryReport) -> tuple[Holder, ...]:
    found = OomFindings(
        answer=report.answer,
        between_steps_bytes=report.between_steps_bytes,
        subject=report.subject,
    )
    return holders_of(found, report.figures)


def _beside(report: MemoryReport) -> str:
    """What a step takes beside what lies there between steps; empty where those that hold
    it are listed, or it is not known."""
    used, peak = report.figures.in_use_bytes, report.figures.peak_bytes
    if not report.live or used is None or peak is None or peak <= used:
        return ""
    return (
        f"A step takes up to {format_size(peak - used)} beside that (activations,"
        " gradients, workspace), and has given it back by now."
    )


def report_json(job: str, report: MemoryReport, peak: RunPeak) -> dict[str, Any]:
    """The documented shape of ``memory --json``."""
    chunks = () if report.memory_map is None else report.memory_map.chunks
    known = names_of(report.answer, chunks)
    figures = asdict(report.figures)
    figures.pop("requested_bytes")
    return {
        "job": job,
        "attempt": report.attempt,
        "live": report.live,
        "step": report.step,
        "source": report.source,
        "jit": None if report.answer is None else report.answer.jit,
        **figures,
        "run_peak_bytes": peak.bytes,
        "run_peak_limit_bytes": peak.limit_bytes,
        "largest_allocatable_bytes": report.largest_allocatable_bytes,
        "holders": [asdict(holder) for holder in _holders(report)],
        "chunks": [
            {
                "address": chunk.address,
                "bytes": chunk.size,
                "in_use": chunk.in_use,
                "name": known.get(chunk.address, ""),
            }
            for chunk in chunks
        ],
    }


def draw(console: Console, job: str, report: MemoryReport, peak: RunPeak) -> None:
    """The report as a person reads it: figures, the map, who holds what."""
    when = "now" if report.live else "the last figures of it"
    step = "" if report.step is None else f", after step {report.step}"
    console.print(Text(f"{job}, attempt {report.attempt}{step} ({when})", style="bold"))
    for line in figure_lines(report):
        console.print(Text(line))
    if peak.bytes is not None:
        limit = peak.limit_bytes
        of = "" if limit is None else f" of {format_size(limit)}"
        console.print(Text(f"run peak, all attempts: {format_size(peak.bytes)}{of}"))
    if not _is_known(report):
        console.print(Text(UNKNOWN))
    _draw_map(console, report)
    _list(console, "Who holds it:", _holders(report))
    if beside := _beside(report):
        console.print(Text(beside))
    _list(console, "Largest chunks:", _chunks(report))


def _is_known(report: MemoryReport) -> bool:
    return bool(figure_lines(report) or _holders(report) or _chunks(report))


def figure_lines(report: MemoryReport) -> list[str]:
    """The figures, a line each; what is not known is left out."""
    figures = report.figures
    sizes = (
        ("limit", figures.limit_bytes),
        ("pool", figures.pool_bytes),
        ("in use", figures.in_use_bytes),
        ("step peak", figures.peak_bytes),
        ("free in pool", figures.free_bytes),
        ("largest free", figures.largest_free_bytes),
        ("allocatable", report.largest_allocatable_bytes),
    )
    when = {"in use": _moment(report), "step peak": " (the most within a step)"}
    lines = [
        f"{name:>13}: {format_size(size)}{when.get(name, '')}"
        for name, size in sizes
        if size is not None
    ]
    if figures.fragmentation is not None:
        lines.append(f"fragmentation: {figures.fragmentation:.1%}")
    if report.source == "estimate":
        lines.append(
            "an estimate, by the allocator's counts and the driver's: its map cannot be"
            " read"
        )
    if report.source == "counts":
        lines.append("the allocator's own counts: this one has no map")
    return lines


def _moment(report: MemoryReport) -> str:
    """When so much was in use."""
    if report.source == "oom":
        return " (as an allocation failed)"
    return " (now, between steps)" if report.live else " (between steps)"


def _draw_map(console: Console, report: MemoryReport) -> None:
    if report.memory_map is None:
        return
    width = max(min(console.width - 2, 100), 10)
    chunks, known = report.memory_map.chunks, labels(report.answer)
    picture = cells(chunks, known, count=width * ROWS)
    for row in range(0, len(picture), width):
        line = Text()
        for cell in picture[row : row + width]:
            line.append(LETTERS[cell.fill], style=COLOURS[cell.fill])
        console.print(line)
    held = dict.fromkeys(Fill, 0)
    for chunk in chunks:
        held[fill_of(chunk, known)] += chunk.size
    if not held[Fill.VARIABLES]:  # of none is told where it lies: they are in the rest
        del held[Fill.VARIABLES]
    legend = Text()
    for fill, size in held.items():
        legend.append(f"{LETTERS[fill]} {fill} {format_size(size)}  ", COLOURS[fill])
    console.print(legend)


def _chunks(report: MemoryReport) -> list[Holder]:
    chunks = () if report.memory_map is None else report.memory_map.chunks
    known = names_of(report.answer, chunks)
    used = sorted((c for c in chunks if c.in_use), key=lambda chunk: -chunk.size)
    return [
        Holder(
            what=known.get(chunk.address, "not named"),
            bytes=chunk.size,
        )
        for chunk in used[:LISTED]
    ]


def _list(console: Console, title: str, holders: Sequence[Holder]) -> None:
    if not holders:
        return
    console.print(Text(title, style="bold"))
    for one in holders[:LISTED]:
        count = "" if one.count is None else f" ({one.count})"
        console.print(Text(f"{format_size(one.bytes):>12}  {visible(one.what)}{count}"))
