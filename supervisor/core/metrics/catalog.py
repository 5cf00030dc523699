"""Every metric, one row a fact: what is exported is read from this table.

Rules: base units; a counter is there at 0 from the start; labels are ``run`` and
``gpu`` (a UUID), ``user``, and at most one more with a fixed set of values, never a pid,
never ``job`` (Prometheus' own label of that name would rename it). A gauge of the living
process ends with the attempt; what the run has reached, its state and its counters stay.
"""

from supervisor.core.metrics.gpu_metrics import GPU_METRICS
from supervisor.core.metrics.host_metrics import EXPORTER_METRICS, HOST_METRICS
from supervisor.core.metrics.memory_metrics import MEMORY_METRICS
from supervisor.core.metrics.metric import Metric
from supervisor.core.metrics.run_metrics import RUN_METRICS

METRICS: tuple[Metric, ...] = (
    *RUN_METRICS,
    *MEMORY_METRICS,
    *GPU_METRICS,
    *HOST_METRICS,
    *EXPORTER_METRICS,
)


def as_markdown() -> str:
    """The table for people; ``deploy/prometheus/metrics.md`` holds what this says."""
    rows = [
        f"| `{'`, `'.join(metric.samples)}` | {metric.kind} "
        f"| {', '.join(metric.labels)} | {metric.lifetime} "
        f"| {metric.help} | {metric.source} |"
        for metric in METRICS
    ]
    return "\n".join(
        (
            "| name | type | labels | until the end of | meaning | source |",
            "| --- | --- | --- | --- | --- | --- |",
            *rows,
            "",
        )
    )
