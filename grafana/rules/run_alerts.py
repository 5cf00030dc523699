"""Alerts about runs."""

from grafana.rules.alert import Alert, AlertCase, Severity
from grafana.rules.recording_rules import (
    ACTIVE,
    GOODPUT,
    GOODPUT_1H,
    GOODPUT_6H,
    GOODPUT_30M,
    IDLE_PART,
    SNAPSHOT_LATE,
    STEP_BASELINE,
    STEP_MEAN,
)

RUN = "trainwarden-run"
MEMORY = "trainwarden-memory"
RUNNING = 'trainwarden_run_state{run="digits", state="running"}'
TRAINING = 'trainwarden_phase{run="digits", phase="training"}'
DIGITS = {"run": "digits"}
FRAGMENTED = 0.5
SOON_SECONDS = 1800
LEAK_SECONDS = 6 * 3600
SLOWER = 1.5
IDLE = 0.9

RUN_ALERTS: tuple[Alert, ...] = (
    Alert(
        name="TrainwardenTrainingStalled",
        severity=Severity.CRITICAL,
        why="Silent: no sign of life for 10 minutes, whatever the phase. Stalled: the "
        "phase says training, yet no step was done in 15 minutes, of a run that was "
        "seen for as long: a window over what has just begun is not full.",
        expr="""\
trainwarden_run_state{state="running"} == 1
and on (instance, run) (
  trainwarden_heartbeat_age_seconds > 600
  or
  (
    changes(trainwarden_step[15m]) == 0
    and on (instance, run)
    min_over_time(trainwarden_phase{phase="training"}[15m]) == 1
    and on (instance, run) trainwarden_step offset 15m
  )
)""",
        hold="5m",
        summary="Training of {{ $labels.run }} is alive but does not move.",
        description="The run {{ $labels.run }} on {{ $labels.instance }} has given no sign "
        "of life for 10 minutes, or has done no step for 15.",
        panel=(RUN, "Last sign of life"),
        cases=(
            AlertCase(
                about="a training that stands still in the training phase, and goes on",
                series={
                    RUNNING: "1x80",
                    TRAINING: "1x80",
                    'trainwarden_heartbeat_age_seconds{run="digits"}': "1x80",
                    'trainwarden_step{run="digits"}': "0+10x20 200x39 210+10x20",
                },
                fires=40,
                labels=({**DIGITS, "state": "running"},),
                resolved=61,
            ),
            AlertCase(
                about="a training that gives no sign of life, here while it compiles",
                series={
                    RUNNING: "1x60",
                    TRAINING: "0x60",
                    'trainwarden_heartbeat_age_seconds{run="digits"}': "0x10 0+60x49",
                    'trainwarden_step{run="digits"}': "0x60",
                },
                fires=27,
                labels=({**DIGITS, "state": "running"},),
            ),
            AlertCase(
                about="a first step that hangs, after twenty minutes of compiling",
                series={
                    RUNNING: "1x80",
                    TRAINING: "0x20 1x59",
                    'trainwarden_heartbeat_age_seconds{run="digits"}': "1x80",
                    'trainwarden_step{run="digits"}': "0x80",
                },
                fires=41,
                labels=({**DIGITS, "state": "running"},),
            ),
            AlertCase(
                about="a long validation, slow steps, and a run between attempts",
                series={
                    'trainwarden_run_state{run="validates", state="running"}': "1x60",
                    'trainwarden_phase{run="validates", phase="training"}': "1x5 0x54",
                    'trainwarden_heartbeat_age_seconds{run="validates"}': "1x60",
                    'trainwarden_step{run="validates"}': "7x60",
                    'trainwarden_run_state{run="slow", state="running"}': "1x60",
                    'trainwarden_phase{run="slow", phase="training"}': "1x60",
                    'trainwarden_heartbeat_age_seconds{run="slow"}': "1x60",
                    'trainwarden_step{run="slow"}': "0x9 1x9 2x9 3x9 4x9 5x9",
                    'trainwarden_phase{run="validates", phase="validating"}': "0x5 1x54",
                    'trainwarden_run_state{run="waits", state="running"}': "0x60",
                    'trainwarden_run_state{run="waits", state="waiting"}': "1x60",
                    'trainwarden_heartbeat_age_seconds{run="waits"}': "0+60x60",
                    'trainwarden_step{run="waits"}': "7x60",
                },
                silent=50,
            ),
        ),
    ),
    Alert(
        name="TrainwardenRestartLoop",
        severity=Severity.WARNING,
        why="2.5 and not 3: increase() extrapolates to the edges of its window and may "
        "come out a little lower than what was counted.",
        expr="sum by (instance, run) (increase(trainwarden_restarts_total[30m])) > 2.5",
        summary="{{ $labels.run }} was restarted three times in half an hour.",
        description="The run {{ $labels.run }} on {{ $labels.instance }} keeps crashing. "
        "It gives up by itself once restarts stop making progress; until then it costs "
        "time.",
        panel=(RUN, "Restarts by cause"),
        cases=(
            AlertCase(
                about="three restarts in half an hour, whatever their causes",
                series={
                    'trainwarden_restarts_total{run="digits", cause="device_oom"}': "0x10 1x60",
                    'trainwarden_restarts_total{run="digits", cause="native_crash"}': "0x15 1x5 2x50",
                },
                fires=22,
                labels=(DIGITS,),
                resolved=41,
            ),
            AlertCase(
                about="two restarts, and restarts of two runs, are no loop",
                series={
                    'trainwarden_restarts_total{run="a", cause="device_oom"}': "0x10 1x5 2x45",
                    'trainwarden_restarts_total{run="b", cause="device_oom"}': "0x12 1x5 2x43",
                },
                silent=30,
            ),
        ),
    ),
    Alert(
        name="TrainwardenGaveUp",
        severity=Severity.CRITICAL,
        why="A daemon shows a run for a day after its end; a `run` in the foreground ends "
        "with exit code 1 instead, and its series with it.",
        expr='trainwarden_run_state{state="gave_up"} == 1',
        summary="{{ $labels.run }} gave up: it does not train any more.",
        description="The run {{ $labels.run }} on {{ $labels.instance }} has ended "
        "without finishing, as no remedy was left. Its last good snapshot is kept.",
        panel=(RUN, "State"),
        cases=(
            AlertCase(
                about="a run that gives up and is started again; one that was drained",
                series={
                    'trainwarden_run_state{run="digits", state="gave_up"}': "0x5 1x10 0x5",
                    'trainwarden_run_state{run="other", state="gave_up"}': "0x20",
                    'trainwarden_run_state{run="ended", state="drained"}': "1x20",
                },
                fires=6,
                labels=({**DIGITS, "state": "gave_up"},),
                resolved=17,
            ),
        ),
    ),
    Alert(
        name="TrainwardenMemoryForecast",
        severity=Severity.WARNING,
        expr="trainwarden_memory_forecast_seconds"
        f'{{resource=~"device|contiguous"}} < {SOON_SECONDS}',
        hold="5m",
        summary="{{ $labels.run }} runs out of memory within half an hour.",
        description="What training takes of {{ $labels.resource }} memory on "
        "{{ $labels.instance }} grows so that nothing is left within half an hour. A "
        "restart at a snapshot is planned before that.",
        panel=(MEMORY, "Memory lasts"),
        cases=(
            AlertCase(
                about="a growing allocator, and one with a day left",
                series={
                    'trainwarden_memory_forecast_seconds{run="digits", resource="device"}': "3600-120x40 _x20",
                    'trainwarden_memory_forecast_seconds{run="other", resource="device"}': "86400x60",
                    'trainwarden_memory_forecast_seconds{run="other", resource="host"}': "600x60",
                },
                fires=21,
                labels=({**DIGITS, "resource": "device"},),
                resolved=46,
            ),
        ),
    ),
    Alert(
        name="TrainwardenFragmentation",
        severity=Severity.WARNING,
        why="Fragmentation alone is harmless: it hurts when a request is about as large "
        "as the largest block that could be had.",
        expr=f"""\
trainwarden_allocator_fragmentation_ratio > {FRAGMENTED}
and on (instance, run)
trainwarden_allocator_largest_request_bytes
> on (instance, run) 0.8 * trainwarden_allocator_largest_allocatable_bytes""",
        hold="10m",
        summary="Memory of {{ $labels.run }} is in pieces hardly large enough.",
        description="More than half of the free memory in the pool of {{ $labels.run }} on "
        "{{ $labels.instance }} is in small pieces, and its largest request is nearly as "
        "large as the largest block.",
        panel=(MEMORY, "Fragmentation"),
        cases=(
            AlertCase(
                about="pieces that are hardly large enough, until a fresh process",
                series={
                    'trainwarden_allocator_fragmentation_ratio{run="digits"}': "0.7x40",
                    'trainwarden_allocator_largest_request_bytes{run="digits"}': "100x40",
                    'trainwarden_allocator_largest_allocatable_bytes{run="digits"}': "400x5 110x20 400x15",
                    'trainwarden_allocator_fragmentation_ratio{run="whole"}': "0.4x40",
                    'trainwarden_allocator_largest_request_bytes{run="whole"}': "100x40",
                    'trainwarden_allocator_largest_allocatable_bytes{run="whole"}': "110x40",
                    'trainwarden_allocator_fragmentation_ratio{run="other"}': "0.9x40",
                    'trainwarden_allocator_largest_request_bytes{run="other"}': "10x40",
                    'trainwarden_allocator_largest_allocatable_bytes{run="other"}': "110x40",
                },
                fires=16,
                labels=(DIGITS,),
                resolved=27,
            ),
        ),
    ),
    Alert(
        name="TrainwardenHostMemoryLeak",
        severity=Severity.WARNING,
        expr=f'trainwarden_memory_forecast_seconds{{resource="host"}} < {LEAK_SECONDS}',
        hold="15m",
        summary="Main memory of {{ $labels.run }} grows and will not last six hours.",
        description="The processes of {{ $labels.run }} on {{ $labels.instance }} take "
        "more and more main memory; it is used up within six hours.",
        panel=(MEMORY, "Memory lasts"),
        cases=(
            AlertCase(
                about="a leak, and a run with seven hours left",
                series={
                    'trainwarden_memory_forecast_seconds{run="digits", resource="host"}': "43200x10 18000x30 43200x20",
                    'trainwarden_memory_forecast_seconds{run="other", resource="host"}': "25200x60",
                    'trainwarden_memory_forecast_seconds{run="other", resource="device"}': "600x60",
                },
                fires=26,
                labels=({**DIGITS, "resource": "host"},),
                resolved=42,
            ),
        ),
    ),
    Alert(
        name="TrainwardenKernelOomKill",
        severity=Severity.WARNING,
        why="The cgroup goes with its attempt, so the diagnosis counts as well.",
        expr="""\
sum by (instance, run) (increase(trainwarden_cgroup_oom_kills_total[30m])) > 0
or
sum by (instance, run) (
  increase(trainwarden_incidents_total{cause="host_oom"}[30m])
) > 0""",
        summary="{{ $labels.run }} ran out of main memory: the kernel killed a process.",
        description="{{ $labels.run }} on {{ $labels.instance }} reached the limit of its "
        "main memory, and the kernel killed a process or refused it more. It was "
        "restarted, or lost a worker.",
        panel=(MEMORY, "Kernel OOM kills"),
        cases=(
            AlertCase(
                about="an incident, and a worker that was killed",
                series={
                    'trainwarden_incidents_total{run="digits", cause="host_oom"}': "0x10 1x60",
                    'trainwarden_cgroup_oom_kills_total{run="worker"}': "0x10 1x60",
                    'trainwarden_incidents_total{run="other", cause="device_oom"}': "0x10 1x60",
                    'trainwarden_cgroup_oom_kills_total{run="other"}': "0x70",
                },
                fires=11,
                labels=(DIGITS, {"run": "worker"}),
                resolved=41,
            ),
        ),
    ),
    Alert(
        name="TrainwardenNonFiniteLoss",
        severity=Severity.WARNING,
        expr="""\
max by (instance, run) (trainwarden_loss != trainwarden_loss or abs(trainwarden_loss) == Inf)
or
sum by (instance, run) (
  increase(trainwarden_incidents_total{cause="non_finite_loss"}[30m])
) > 0""",
        summary="The loss of {{ $labels.run }} is no number any more.",
        description="The loss of {{ $labels.run }} on {{ $labels.instance }} became NaN or "
        "infinite. Trainwarden goes back to a snapshot before it, if it may.",
        panel=(RUN, "Loss"),
        cases=(
            AlertCase(
                about="a loss that is NaN and heals, and an incident that says so",
                series={
                    'trainwarden_loss{run="digits"}': "0.5x10 "
                    + "NaN " * 30
                    + "0.5x24",
                    'trainwarden_incidents_total{run="went_back", cause="non_finite_loss"}': "0x10 1x50",
                    'trainwarden_incidents_total{run="other", cause="device_oom"}': "0x10 1x50",
                    'trainwarden_loss{run="other"}': "0.5x60",
                },
                fires=11,
                labels=(DIGITS, {"run": "went_back"}),
                resolved=41,
            ),
        ),
    ),
    Alert(
        name="TrainwardenSnapshotStale",
        severity=Severity.WARNING,
        why="Three planned intervals, and five minutes: a snapshot waits for the end of a "
        "long step.",
        expr=f"{SNAPSHOT_LATE} > 3\nand max by (instance, run, tier) "
        "(trainwarden_snapshot_age_seconds) > 300",
        hold="5m",
        summary="{{ $labels.run }} has no new snapshot in its {{ $labels.tier }} tier.",
        description="The newest snapshot of {{ $labels.run }} on {{ $labels.instance }} "
        "({{ $labels.tier }}) is older than three planned intervals: a crash now costs "
        "that much work.",
        panel=(RUN, "Age of the newest snapshot"),
        cases=(
            AlertCase(
                about="snapshots that stop, and a validation in which none is due",
                series={
                    'trainwarden_snapshot_age_seconds{run="digits", tier="durable"}': "60x10 60+60x30 60x20",
                    'trainwarden_snapshot_interval_seconds{run="digits", tier="durable"}': "120x60",
                    TRAINING: "1x60",
                    'trainwarden_snapshot_age_seconds{run="validates", tier="durable"}': "60+60x60",
                    'trainwarden_snapshot_interval_seconds{run="validates", tier="durable"}': "120x60",
                    'trainwarden_phase{run="validates", phase="training"}': "0x60",
                },
                fires=22,
                labels=({**DIGITS, "tier": "durable"},),
                resolved=42,
            ),
            AlertCase(
                about="snapshots each minute or so that stop for seven; late ones; small ones",
                series={
                    'trainwarden_snapshot_age_seconds{run="digits", tier="durable"}': "60x10 400x30 60x20",
                    'trainwarden_snapshot_interval_seconds{run="digits", tier="durable"}': "100x60",
                    TRAINING: "1x60",
                    'trainwarden_snapshot_age_seconds{run="late", tier="durable"}': "600x60",
                    'trainwarden_snapshot_interval_seconds{run="late", tier="durable"}': "240x60",
                    'trainwarden_phase{run="late", phase="training"}': "1x60",
                    'trainwarden_snapshot_age_seconds{run="quick", tier="memory"}': "250x60",
                    'trainwarden_snapshot_interval_seconds{run="quick", tier="memory"}': "60x60",
                    'trainwarden_phase{run="quick", phase="training"}': "1x60",
                },
                fires=16,
                labels=({**DIGITS, "tier": "durable"},),
                resolved=42,
            ),
        ),
    ),
    Alert(
        name="TrainwardenSnapshotFailing",
        severity=Severity.WARNING,
        expr="sum by (instance, run, tier) "
        "(increase(trainwarden_snapshot_failures_total[30m])) > 0",
        summary="Snapshots of {{ $labels.run }} cannot be written ({{ $labels.tier }}).",
        description="A snapshot of {{ $labels.run }} on {{ $labels.instance }} could not "
        "be written to its {{ $labels.tier }} tier in the last half hour. Training goes "
        "on; a crash costs more.",
        panel=(RUN, "Snapshots a minute"),
        cases=(
            AlertCase(
                about="one snapshot that fails",
                series={
                    'trainwarden_snapshot_failures_total{run="digits", tier="durable"}': "0x10 1x50",
                    'trainwarden_snapshot_failures_total{run="digits", tier="memory"}': "0x60",
                },
                fires=11,
                labels=({**DIGITS, "tier": "durable"},),
                resolved=41,
            ),
        ),
    ),
    Alert(
        name="TrainwardenGoodputLow",
        severity=Severity.WARNING,
        why="The objective is 90 % of the time in steps. Fast: five times the allowed "
        "loss over an hour and still now; slow: twice over six hours and still now. A "
        "run that is younger than half an hour is left alone, and one that has ended: "
        "its averages outlive it.",
        expr=f"""\
(
  {GOODPUT_1H} < 0.5 and {GOODPUT} < 0.5
  or
  {GOODPUT_6H} < 0.8 and {GOODPUT_30M} < 0.8
)
and on (instance, run) {GOODPUT} offset 30m
and on (instance, run) {ACTIVE} == 1""",
        hold="15m",
        summary="{{ $labels.run }} spends too little of its time on steps.",
        description="{{ $labels.run }} on {{ $labels.instance }} loses much of its time "
        "to starting, waiting, compiling, snapshots or steps done again.",
        panel=(RUN, "Goodput"),
        cases=(
            AlertCase(
                about="half of an hour lost, a run that is slow for six, a healthy one",
                series={
                    RUNNING: "1x500",
                    'trainwarden_step_duration_seconds_sum{run="digits"}': "0+57x60 3420+12x120 5000+57x320",
                    'trainwarden_phase_seconds_total{run="digits", phase="validating"}': "0x500",
                    'trainwarden_step_duration_seconds_count{run="digits"}': "9x500",
                    'trainwarden_phase_seconds_total{run="digits", phase="replaying"}': "0x500",
                    'trainwarden_run_state{run="fine", state="running"}': "1x500",
                    'trainwarden_step_duration_seconds_sum{run="fine"}': "0+57x500",
                    'trainwarden_phase_seconds_total{run="fine", phase="validating"}': "0x500",
                    'trainwarden_step_duration_seconds_count{run="fine"}': "9x500",
                    'trainwarden_phase_seconds_total{run="fine", phase="replaying"}': "0x500",
                },
                fires=90,
                labels=(DIGITS,),
                resolved=207,
            ),
            AlertCase(
                about="six good hours, then a third for an hour: the fast window; then more",
                series={
                    RUNNING: "1x520",
                    'trainwarden_step_duration_seconds_sum{run="digits"}': "0+58.2x360 20973+21x74 22563+36x19 23305.2+58.2x60",
                    'trainwarden_phase_seconds_total{run="digits", phase="validating"}': "0x520",
                    'trainwarden_step_duration_seconds_count{run="digits"}': "9x520",
                    'trainwarden_phase_seconds_total{run="digits", phase="replaying"}': "0x520",
                },
                fires=424,
                labels=(DIGITS,),
                resolved=438,
            ),
            AlertCase(
                about="a fifth and more lost for hours: the slow window",
                series={
                    RUNNING: "1x500",
                    'trainwarden_step_duration_seconds_sum{run="digits"}': "0+42x500",
                    'trainwarden_phase_seconds_total{run="digits", phase="validating"}': "0x500",
                    'trainwarden_step_duration_seconds_count{run="digits"}': "9x500",
                    'trainwarden_phase_seconds_total{run="digits", phase="replaying"}': "0x500",
                },
                fires=46,
                labels=(DIGITS,),
            ),
            AlertCase(
                about="a run that has just begun, one that has ended, one without steps",
                series={
                    'trainwarden_run_state{run="script", state="running"}': "1x200",
                    'trainwarden_step_duration_seconds_sum{run="script"}': "0x200",
                    'trainwarden_step_duration_seconds_count{run="script"}': "0x200",
                    'trainwarden_phase_seconds_total{run="script", phase="replaying"}': "0x200",
                    'trainwarden_run_state{run="young", state="running"}': "1x25",
                    'trainwarden_step_duration_seconds_sum{run="young"}': "0x25",
                    'trainwarden_phase_seconds_total{run="young", phase="validating"}': "0x25",
                    'trainwarden_step_duration_seconds_count{run="young"}': "9x25",
                    'trainwarden_phase_seconds_total{run="young", phase="replaying"}': "0x25",
                    'trainwarden_run_state{run="over", state="running"}': "1x5 0x200",
                    'trainwarden_step_duration_seconds_sum{run="over"}': "0x200",
                    'trainwarden_phase_seconds_total{run="over", phase="validating"}': "0x200",
                    'trainwarden_step_duration_seconds_count{run="over"}': "9x200",
                    'trainwarden_phase_seconds_total{run="over", phase="replaying"}': "0x200",
                },
                silent=100,
            ),
        ),
    ),
    Alert(
        name="TrainwardenStepsSlow",
        severity=Severity.WARNING,
        why="Against the run's own median of six hours; not after a change of slices, "
        "which changes what a step costs.",
        expr=f"""\
{STEP_MEAN} > {SLOWER} * {STEP_BASELINE}
and on (instance, run) {STEP_MEAN} offset 1h
unless on (instance, run) changes(trainwarden_microbatch_slices[6h]) > 0""",
        hold="20m",
        summary="Steps of {{ $labels.run }} take half as long again as usual.",
        description="{{ $labels.run }} on {{ $labels.instance }} has been slower than its "
        "own history for twenty minutes: a clock, a disk, a neighbour, or its data.",
        panel=(RUN, "Time a step"),
        cases=(
            AlertCase(
                about="twice as slow for a while; slower because of more slices",
                series={
                    'trainwarden_step_duration_seconds_sum{run="digits"}': "0+54x120 6480+54x60 9720+54x120",
                    'trainwarden_step_duration_seconds_count{run="digits"}': "0+540x120 64800+270x60 81000+540x120",
                    'trainwarden_microbatch_slices{run="digits"}': "1x300",
                    'trainwarden_step_duration_seconds_sum{run="sliced"}': "0+54x300",
                    'trainwarden_step_duration_seconds_count{run="sliced"}': "0+540x120 64800+270x180",
                    'trainwarden_microbatch_slices{run="sliced"}': "1x120 2x180",
                },
                fires=144,
                labels=(DIGITS,),
                resolved=184,
            ),
            AlertCase(
                about="slices that changed seven hours before",
                series={
                    'trainwarden_step_duration_seconds_sum{run="digits"}': "0+54x430 23220+54x120",
                    'trainwarden_step_duration_seconds_count{run="digits"}': "0+540x430 232470+270x60 248940+540x60",
                    'trainwarden_microbatch_slices{run="digits"}': "1x10 2x560",
                },
                fires=455,
                labels=(DIGITS,),
            ),
            AlertCase(
                about="a run of half an hour has no history",
                series={
                    'trainwarden_step_duration_seconds_sum{run="digits"}': "0+54x120",
                    'trainwarden_step_duration_seconds_count{run="digits"}': "0+540x35 19170+270x85",
                    'trainwarden_microbatch_slices{run="digits"}': "1x120",
                },
                silent=110,
            ),
        ),
    ),
    Alert(
        name="TrainwardenGpuAllocatedIdle",
        severity=Severity.WARNING,
        why="Of a run that is there, and was a quarter of an hour ago: held for another, "
        "that makes the half hour.",
        expr=f"""\
{IDLE_PART} > {IDLE}
and on (instance, run) {ACTIVE} == 1
and on (instance, run) {IDLE_PART} offset 15m""",
        hold="15m",
        summary="GPUs of {{ $labels.run }} do nothing.",
        description="The GPUs that {{ $labels.run }} holds on {{ $labels.instance }} were "
        "idle for nine tenths of the last half hour.",
        panel=(RUN, "GPU time by use"),
        cases=(
            AlertCase(
                about="a run that waits for its data, then works",
                series={
                    RUNNING: "1x160",
                    'trainwarden_run_state{run="other", state="running"}': "1x160",
                    'trainwarden_run_gpu_time_seconds_total{run="digits", use="busy"}': "0+60x40 2400x60 2400+60x60",
                    'trainwarden_run_gpu_time_seconds_total{run="digits", use="idle"}': "0x40 0+60x60 3600x60",
                    'trainwarden_run_gpu_time_seconds_total{run="other", use="busy"}': "0+60x160",
                    'trainwarden_run_gpu_time_seconds_total{run="other", use="idle"}': "0x160",
                },
                fires=83,
                labels=(DIGITS,),
                resolved=105,
            ),
            AlertCase(
                about="a run that prepares its data for 20 minutes, one that has ended",
                series={
                    RUNNING: "1x100",
                    'trainwarden_run_gpu_time_seconds_total{run="digits", use="busy"}': "0x20 0+60x80",
                    'trainwarden_run_gpu_time_seconds_total{run="digits", use="idle"}': "0+60x20 1200x80",
                    'trainwarden_run_state{run="ended", state="running"}': "1x25 0x80",
                    'trainwarden_run_gpu_time_seconds_total{run="ended", use="busy"}': "0x100",
                    'trainwarden_run_gpu_time_seconds_total{run="ended", use="idle"}': "0+60x25 1500x80",
                },
                silent=100,
            ),
        ),
    ),
)
