"""Planned restarts, before memory that grows runs out."""

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.result import (
    Diagnosis,
    IncidentKind,
    Reason,
    Remedy,
    RemedyKind,
)
from supervisor.core.lifecycle.effects import RecordIncident
from supervisor.core.lifecycle.events import RestartDue
from supervisor.core.memory.forecast import SURE, Forecast, Resource
from supervisor.core.text.units import format_duration, format_size

CAUSES = {
    Resource.DEVICE: Cause.DEVICE_OOM,
    Resource.CONTIGUOUS: Cause.DEVICE_OOM_FRAGMENTATION,
    Resource.HOST: Cause.HOST_OOM,
}
"""What it would have come to."""

NAMES = {
    Resource.DEVICE: "tensors kept between steps",
    Resource.CONTIGUOUS: "fragmentation of the allocator's pool",
    Resource.HOST: "main memory of the training process",
}

ADVICE = {
    Resource.DEVICE: (
        "Something keeps tensors from step to step: a list in a callback, a metric that "
        "collects, a history of losses that were never made numbers (float(loss)). "
        "Where it is known, the names of what holds most stand above."
    ),
    Resource.CONTIGUOUS: (
        "The pool falls into pieces: long-lived and short-lived tensors of many sizes "
        "take turns. On a GPU, TF_GPU_ALLOCATOR=cuda_malloc_async avoids it."
    ),
    Resource.HOST: (
        "The script or its input pipeline keeps growing in main memory: a cache without "
        "an end, a list of arrays, workers that keep what they have read."
    ),
}


def sentence(forecast: Forecast) -> str:
    """A forecast for a tired person."""
    name = NAMES[forecast.resource]
    rate = format_size(forecast.growth * 60)
    left = format_duration(forecast.seconds or 0.0)
    return (
        f"{name} grew by {rate} a minute, and {forecast.part:.0%} of what there is was "
        f"used up: about {left} were left before it would have run out"
    )


def foreseen(forecast: Forecast) -> Diagnosis:
    """What a planned restart averts, as a diagnosis."""
    return Diagnosis(
        cause=CAUSES[forecast.resource],
        because=(
            Reason(f"{sentence(forecast)}.", "forecast"),
            Reason(
                f"It rose far above its scatter, over "
                f"{format_duration(forecast.watched_seconds)} of steps: that it is no "
                f"trend has a chance of less than 1 in {round(1 / (1 - SURE))}.",
                "forecast",
            ),
        ),
        advice=ADVICE[forecast.resource],
    )


def recycle(rss_bytes: int, *, most: int, seconds: float | None) -> RestartDue:
    """A restart in time, of what ran out of main memory before.

    ``most``: bytes from which on it is due; ``seconds``: left, at the present trend.
    """
    pace = (
        ""
        if seconds is None
        else f" At the present trend it would have run out in {format_duration(seconds)}."
    )
    averts = Diagnosis(
        cause=Cause.HOST_OOM,
        because=(
            Reason(
                f"Training held {format_size(rss_bytes)} of main memory. It ran out of "
                f"it before, so it starts again from {format_size(most)} on.{pace}",
                "recycle",
            ),
        ),
        advice=ADVICE[Resource.HOST],
    )
    because = f"training holds {format_size(rss_bytes)} of main memory"
    return RestartDue(because, averts)


def planned(diagnosis: Diagnosis, *, attempt: int, step: int | None) -> RecordIncident:
    """The record of a planned restart: no failure, and no budget is spent."""
    because = "a fresh process goes on from the snapshot that was taken for it"
    return RecordIncident(
        attempt=attempt,
        happened=IncidentKind.PLANNED,
        diagnosis=diagnosis,
        remedy=Remedy(kind=RemedyKind.RESTART, because=because),
        failed_step=step,
    )
