"""A box to look at: its jobs, its GPUs, what went wrong, and all its runs."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from supervisor.core.jobs.accounting.run_summary import lost_text
from supervisor.core.jobs.job_status import state_words
from supervisor.core.text.units import format_duration, format_size, local_time
from supervisor.web.line_chart import scrolling
from supervisor.web.markup import Element, tag
from supervisor.web.run_view import error_text, loss_text
from supervisor.web.scales import seconds_text

JOB_HEADS = (
    "epoch",
    "step",
    "loss",
    "step time",
    "memory between steps",
    "what is going on",
)
"""Of the columns that a job may have nothing in."""
RUNS = 50
"""Of the history, the newest."""


def jobs_part(jobs: Sequence[Mapping[str, Any]]) -> Element:
    """Every job and where it is. A column in which no job has anything is left out."""
    if not jobs:
        return tag("p", "No job has run yet: trainwarden run train.py begins one.")
    cells = [_job_cells(job) for job in jobs]
    shown = [head for head in JOB_HEADS if any(row[head] for row in cells)]
    rows = [
        _job_row(job, [row[head] for head in shown])
        for job, row in zip(jobs, cells, strict=True)
    ]
    return _table("Jobs", ("job", "state", "attempt", *shown), rows)


def _job_cells(job: Mapping[str, Any]) -> dict[str, str | list[Element]]:
    """By the heads of their columns."""
    epoch, step = job["epoch"], job["step"]
    used, limit = job["memory_in_use_bytes"], job["memory_limit_bytes"]
    memory = "" if used is None else format_size(used)
    if used is not None and limit is not None:
        memory += f" of {format_size(limit)}"
    cells = (
        "" if epoch is None else f"{epoch + 1} of {job['epochs'] or '?'}",
        "" if step is None else f"{step:,}",
        loss_text(job),
        "" if job["step_seconds"] is None else seconds_text(job["step_seconds"]),
        memory,
        _going_on(job),
    )
    return dict(zip(JOB_HEADS, cells, strict=True))


def news_of(job: Mapping[str, Any]) -> str:
    """Its message, unless that says what the columns of its state and its attempt do."""
    message, state = str(job["message"] or ""), str(job["state"])
    said = {state, state_words(state), f"attempt {job['attempt']}"}
    return "" if message in said else message


def _job_row(job: Mapping[str, Any], cells: Sequence[str | list[Element]]) -> Element:
    name = str(job["job"])
    state = state_words(str(job["state"]))
    kind = f"is-{state.replace(' ', '-')}"
    return tag(
        "tr",
        tag("th", tag("a", name, href=f"jobs/{quote(name, safe='')}"), scope="row"),
        tag("td", tag("strong", state, class_=kind)),
        tag("td", str(job["attempt"])),
        [tag("td", cell) for cell in cells],
    )


def _going_on(job: Mapping[str, Any]) -> list[Element]:
    """Its news, and below them what the newest failure said itself."""
    news, error = news_of(job), error_text(job)
    told = [tag("div", news)] if news else []
    return [*told, tag("div", error, class_="note")] if error else told


def gpus_part(gpus: Mapping[str, Any] | None) -> Element:
    """The GPUs, whose they are and how they are."""
    if gpus is None:
        return tag(
            "p",
            "No daemon runs here that would watch GPUs; trainwarden gpu asks the driver.",
        )
    if not gpus["gpus"]:
        return tag("p", gpus["problem"] or "No GPUs.")
    heads = ("GPU", "name", "job", "memory", "busy", "temperature", "power")
    return _table("GPUs", heads, [_gpu_row(one) for one in gpus["gpus"]])


def _gpu_row(one: Mapping[str, Any]) -> Element:
    total, used = one["memory_total_bytes"], one["memory_used_bytes"]
    busy, celsius, watts = (
        one["utilization"],
        one["temperature_celsius"],
        one["power_watts"],
    )
    cells = (
        str(one["name"]),
        str(one["job"] or ""),
        "" if total is None else f"{format_size(used)} of {format_size(total)}",
        "" if busy is None else f"{busy:.0%}",
        "" if celsius is None else f"{celsius:.0f} °C",
        "" if watts is None else f"{watts:.0f} W",
    )
    index = "?" if one["index"] is None else one["index"]
    return tag(
        "tr",
        tag("th", f"{index} {one['gpu'][:12]}", scope="row"),
        [tag("td", cell) for cell in cells],
    )


def history_part(runs: Sequence[Mapping[str, Any]]) -> Element:
    """The newest runs first, those that are over as well."""
    if not runs:
        return tag("p", "Nothing has run yet.")
    heads = (
        "job",
        "run",
        "user",
        "state",
        "began",
        "elapsed",
        "attempts",
        "device memory, run peak",
        "main memory, run peak",
        "lost",
    )
    newest = list(runs)[::-1][:RUNS]
    return _table("History", heads, [_run_row(run) for run in newest])


def _run_row(run: Mapping[str, Any]) -> Element:
    elapsed, peak = run["elapsed_seconds"], run["device_peak_bytes"]
    host = run["host_peak_bytes"]
    cells = (
        str(run["run"]),
        str(run["user"] or ""),
        state_words(str(run["state"])),
        local_time(run["began_at"]),
        "" if elapsed is None else format_duration(elapsed),
        str(run["attempts"]),
        "" if peak is None else format_size(peak),
        "" if host is None else format_size(host),
        lost_text(run["lost_steps"], run["downtime_seconds"]),
    )
    return tag(
        "tr",
        tag("th", str(run["job"]), scope="row"),
        [tag("td", cell) for cell in cells],
    )


def _table(name: str, heads: Sequence[str], rows: Sequence[Element]) -> Element:
    head = tag("tr", [tag("th", text, scope="col") for text in heads])
    return scrolling(
        name, tag("table", tag("thead", head), tag("tbody", rows), class_="plain")
    )
