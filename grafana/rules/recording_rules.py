"""Recording rules: what several alerts and panels ask for, worked out once.

Names are ``level:metric:operations``, as Prometheus' own practice has it.
"""

from dataclasses import dataclass

ACTIVE = "instance_run:trainwarden_run_active:bool"
GOODPUT = "instance_run:trainwarden_goodput:ratio_rate5m"
GOODPUT_30M = "instance_run:trainwarden_goodput:ratio_avg30m"
GOODPUT_1H = "instance_run:trainwarden_goodput:ratio_avg1h"
GOODPUT_6H = "instance_run:trainwarden_goodput:ratio_avg6h"
STEP_MEAN = "instance_run:trainwarden_step_duration_seconds:mean5m"
STEP_BASELINE = "instance_run:trainwarden_step_duration_seconds:median6h"
IDLE_PART = "instance_run:trainwarden_run_gpu_time_idle:ratio30m"
FREE_PART = "instance_filesystem:trainwarden_filesystem_free:ratio"
SNAPSHOT_LATE = "instance_run_tier:trainwarden_snapshot_wait:intervals"
SNAPSHOT_WAIT = """\
  max by (instance, run, tier) (trainwarden_snapshot_wait_seconds)
  or
  max by (instance, run, tier) (trainwarden_snapshot_age_seconds)"""
"""Time without a new snapshot. The second line is for exporters from before there was a
wait: in a fleet they are not upgraded all at once."""


@dataclass(frozen=True, slots=True)
class RecordingRule:
    """One recording rule."""

    name: str
    expr: str
    about: str


RECORDED: tuple[RecordingRule, ...] = (
    RecordingRule(
        ACTIVE,
        """\
max by (instance, run) (
  trainwarden_run_state{state=~"launching|running|draining|killing|waiting"}
)""",
        "1 while the run should make progress, 0 once it has ended or before its turn.",
    ),
    RecordingRule(
        GOODPUT,
        """\
clamp(
  sum by (instance, run) (rate(trainwarden_step_duration_seconds_sum[5m]))
  + sum by (instance, run) (
    rate(trainwarden_phase_seconds_total{phase="validating"}[5m])
  )
  - sum by (instance, run) (
    rate(trainwarden_phase_seconds_total{phase="replaying"}[5m])
  ),
  0, 1
)
and instance_run:trainwarden_run_active:bool == 1
and sum by (instance, run) (trainwarden_step_duration_seconds_count) > 0""",
        "Part of the time that went into steps and validation, less steps done again; of "
        "runs that count steps: of others it is not known, which is not 0. "
        "Of steps, not of phases: a stall is in the phase of training, too.",
    ),
    *(
        RecordingRule(
            f"instance_run:trainwarden_goodput:ratio_avg{window}",
            f"avg_over_time({GOODPUT}[{window}])",
            "The same over longer: only over the time in which the run was there.",
        )
        for window in ("30m", "1h", "6h")
    ),
    RecordingRule(
        STEP_MEAN,
        """\
sum by (instance, run) (rate(trainwarden_step_duration_seconds_sum[5m]))
/
(sum by (instance, run) (rate(trainwarden_step_duration_seconds_count[5m])) > 0)""",
        "How long a step takes now.",
    ),
    RecordingRule(
        STEP_BASELINE,
        f"quantile_over_time(0.5, {STEP_MEAN}[6h])",
        "How long it usually takes: the run's own history.",
    ),
    RecordingRule(
        IDLE_PART,
        """\
sum by (instance, run) (rate(trainwarden_run_gpu_time_seconds_total{use="idle"}[30m]))
/
(sum by (instance, run) (rate(trainwarden_run_gpu_time_seconds_total[30m])) > 0)""",
        "Part of the time that GPUs given to the run did nothing.",
    ),
    RecordingRule(
        FREE_PART,
        """\
max by (instance, filesystem) (trainwarden_filesystem_free_bytes)
/
max by (instance, filesystem) (trainwarden_filesystem_size_bytes)""",
        "Part of a file system that is free.",
    ),
    RecordingRule(
        SNAPSHOT_LATE,
        f"""\
(
{SNAPSHOT_WAIT}
)
/
max by (instance, run, tier) (trainwarden_snapshot_interval_seconds)
and on (instance, run) (
  max_over_time(trainwarden_phase{{phase="training"}}[5m]) == 1
  or
  changes(trainwarden_step[5m]) > 0
)""",
        "Time without a new snapshot in planned intervals, while it trains: in that phase "
        "within five minutes, as epochs change it, or with steps of a loop of its own. "
        "Exporters of older versions tell the age of the newest snapshot alone.",
    ),
)
