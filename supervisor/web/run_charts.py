"""The curves of a run: loss, metrics, step time, memory."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from supervisor.core.diagnosis.explain import incident_headline
from supervisor.core.text.units import (
    format_duration,
    format_size,
)
from supervisor.web.attempt_evidence import EpochLogs
from supervisor.web.line_chart import (
    Axis,
    Bound,
    Chart,
    Line,
    Mark,
    Segments,
)
from supervisor.web.markup import Element
from supervisor.web.run_view import RunDossier, seconds_between
from supervisor.web.scales import byte_unit, seconds_text, time_unit

CURVES = 6
"""Metrics that are drawn, beside the loss."""


def curves_part(dossier: RunDossier) -> list[Element]:
    """Loss, metrics, step time and memory."""
    charts = [
        *progress_charts(dossier),
        *metric_charts(dossier),
        *memory_charts(dossier),
    ]
    return [chart.draw() for chart in charts if chart.drawn]


STEPS = Axis(name="step", form=lambda v: f"{v:,.0f}")


def progress_charts(dossier: RunDossier) -> list[Chart]:
    """By step: they lie above each other where steps were done again."""
    loss = _lines(dossier, "loss_step", {"loss": "loss"})
    by_step = [Mark(x=float(i["failed_step"]), label=f"#{i['id']}", about=_about(i))
               for i in dossier.incidents if i["failed_step"] is not None]  # fmt: skip
    seconds = _lines(dossier, "step", {"step_seconds": "seconds a step"})
    times = [y for line in seconds for _, y in line.points]
    milli = bool(times) and max(times) < 1
    return [
        Chart(
            id="loss",
            title="Loss",
            lines=loss,
            x=STEPS,
            y=Axis(name="loss"),
            marks=tuple(by_step),
        ),
        Chart(
            id="step-time",
            title="Step time (smoothed)",
            lines=seconds,
            x=STEPS,
            y=Axis(
                name="step time",
                form=seconds_text,
                factor=0.001 if milli else 1.0,
                suffix=" ms" if milli else " s",
                from_zero=True,
            ),
            marks=tuple(by_step),
        ),
    ]


def _about(incident: Mapping[str, Any]) -> str:
    return f"Incident {incident['id']}: {incident_headline(incident)}"


def metric_charts(dossier: RunDossier) -> list[Chart]:
    """What Keras told at the ends of epochs, a metric beside its value in validation."""
    rows = [row for number in sorted(dossier.epochs) for row in dossier.epochs[number]]
    names = dict.fromkeys(n.removeprefix("val_") for row in rows for n in row.logs)
    drawn = enumerate(list(names)[:CURVES], 1)
    return [_metric_chart(name, rows, number=number) for number, name in drawn]


def _metric_chart(name: str, rows: Sequence[EpochLogs], *, number: int) -> Chart:
    lines = [
        Line(label=label, tone=tone, segments=(points,))
        for label, tone in ((name, 1), (f"val_{name}", 2))
        if (points := _by_epoch(label, rows))
    ]
    return Chart(
        id=f"metric-{number}",
        title=f"{name}, by epoch",
        lines=tuple(lines),
        x=Axis(name="epoch", form=lambda v: f"{v:.0f}"),
        y=Axis(name=name),
    )


def _by_epoch(name: str, rows: Iterable[EpochLogs]) -> tuple[tuple[float, float], ...]:
    """The newest of each epoch: one that was begun again is told twice."""
    known = {row.epoch + 1.0: row.logs[name] for row in rows if name in row.logs}
    return tuple(sorted(known.items()))


def memory_charts(dossier: RunDossier) -> list[Chart]:
    """By time, with the limit and the incidents."""
    device = _lines(dossier, "time", {"device_bytes": "in use", "pool_bytes": "pool",
                                      "largest_free_bytes": "largest free block"})  # fmt: skip
    host = _lines(dossier, "time", {"host_bytes": "training process"})
    limit = dossier.status.get("memory_limit_bytes")
    bounds = (
        ()
        if limit is None
        else (Bound(y=float(limit), label=f"limit {format_size(limit)}"),)
    )
    first = dossier.attempts[0]["began_at"] if dossier.attempts else None
    marks = tuple(
        Mark(x=seconds_between(first, i["at"]), label=f"#{i['id']}", about=_about(i))
        for i in dossier.incidents
        if first is not None
    )
    paused = dossier.run.get("paused_seconds") or 0.0
    longest = max((x for line in (*device, *host) for x, _ in line.points), default=0.0)
    return [
        memory_chart(
            "device",
            "Device memory (allocator)",
            lines=device,
            longest=longest,
            marks=marks,
            bounds=bounds,
            paused=paused,
        ),
        memory_chart(
            "host",
            "Main memory",
            lines=host,
            longest=longest,
            marks=marks,
            paused=paused,
        ),
    ]


def memory_chart(
    name: str,
    title: str,
    *,
    lines: tuple[Line, ...],
    longest: float,
    marks: tuple[Mark, ...] = (),
    bounds: tuple[Bound, ...] = (),
    paused: float = 0.0,
) -> Chart:
    """Sizes by the time since the beginning; ``paused``: so many seconds of it lie between
    the commands of the run, and are none of what it took."""
    sizes = [y for line in lines for _, y in line.points] + [b.y for b in bounds]
    per_unit, unit = byte_unit(max(sizes, default=0.0))
    per_time, short = time_unit(longest)
    beside = f", {format_duration(paused)} between its commands in it" if paused else ""
    return Chart(
        id=f"memory-{name}",
        title=title,
        lines=lines,
        x=Axis(
            name=f"time ({short}{beside})",
            head=f"time{beside}",
            form=format_duration,
            factor=per_time,
        ),
        y=Axis(
            name="memory",
            form=format_size,
            factor=per_unit,
            suffix=f" {unit}",
            from_zero=True,
        ),
        marks=marks,
        bounds=bounds,
        x_span=(0.0, longest),
    )


def _lines(
    dossier: RunDossier, by: str, columns: Mapping[str, str]
) -> tuple[Line, ...]:
    """A curve for each column; a segment for each attempt."""
    return tuple(
        Line(label=label, tone=tone, segments=_segments(dossier, by, column))
        for tone, (column, label) in enumerate(columns.items(), 1)
    )


def _segments(dossier: RunDossier, by: str, column: str) -> Segments:
    began = dossier.attempts[0]["began_at"] if dossier.attempts else ""
    return tuple(
        column_points(
            one["series"], by, column, shift=seconds_between(began, one["began_at"])
        )
        for one in dossier.attempts
    )


def column_points(
    series: Mapping[str, Any], by: str, column: str, *, shift: float = 0.0
) -> tuple[tuple[float, float], ...]:
    """A column of a series over its steps (``step``; ``loss_step``: those that the loss is
    of), or over its time (``time``)."""
    values: list[float | None] = series.get(column) or []
    found: dict[float, float] = {}
    for place, value in zip(_places(series, by), values, strict=False):
        if place is not None and value is not None:
            found[float(place) + (shift if by == "time" else 0.0)] = float(value)
    return tuple(found.items())


def _places(series: Mapping[str, Any], by: str) -> list[float | None]:
    """Where an older version kept no step of a loss, the newest step beside it."""
    if by == "time":
        return series.get("seconds") or []
    steps: list[float | None] = series.get("step") or []
    if by == "step" or not series.get("loss_step"):
        return steps
    pairs = zip(series["loss_step"], steps, strict=False)
    return [step if of_loss is None else of_loss for of_loss, step in pairs]
