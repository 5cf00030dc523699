"""Alerts about runs: they stand still, crash, give up, or waste time."""

from grafana.rules.alert import (
    DIGITS,
    RUN,
    RUNNING,
    TRAINING,
    Alert,
    AlertCase,
    Severity,
)
from grafana.rules.conditions import counted, lasting
from grafana.rules.recording_rules import (
    GOODPUT,
    GOODPUT_1H,
    GOODPUT_6H,
    GOODPUT_30M,
    IDLE_PART,
    STEP_BASELINE,
    STEP_MEAN,
)

SLOWER = 1.5
IDLE = 0.9

RUN_ALERTS: tuple[Alert, ...] = (
    Alert(
        name="TrainwardenTrainingStalled",
        severity=Severity.CRITICAL,
        why="Silent: no sign of life for 10 minutes, whatever the phase; a thread gives "
        "them as long as the interpreter runs. Stalled: the "
        "phase says training, yet no step was done in 15 minutes, of a run that was "
        "seen for as long: a window over what has just begun is not full. Idle: another "
        "phase for an hour (a validation, a compilation, the script's own code, which "
        "may take their time), no step, and next to no processor time; who waits "
        "spinning is not found. Trainwarden itself ends a hang sooner, unless its "
        "deadlines are off.",
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
  or
  (
    max by (instance, run) (min_over_time(trainwarden_phase{phase!="training"}[1h])) == 1
    and on (instance, run) trainwarden_phase offset 1h
    and on (instance, run) rate(trainwarden_processes_cpu_seconds_total[1h]) < 0.01
    unless on (instance, run) changes(trainwarden_step[1h]) > 0
  )
)""",
        hold="5m",
        summary="Training of {{ $labels.run }} is alive but does not move.",
        description="The run {{ $labels.run }} on {{ $labels.instance }} has given no sign "
        "of life for 10 minutes, has done no step for 15, or nothing at all for an hour.",
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
                about="a deadlock between steps, while it still gives signs of life",
                series={
                    RUNNING: "1x150",
                    TRAINING: "1x20 0x90 1x40",
                    'trainwarden_phase{run="digits", phase="between"}': "0x20 1x90 0x40",
                    'trainwarden_heartbeat_age_seconds{run="digits"}': "1x150",
                    'trainwarden_step{run="digits"}': "0+10x20 200x89 210+10x40",
                    'trainwarden_processes_cpu_seconds_total{run="digits"}': "0+60x20 1200+0.2x89 1220+60x40",
                },
                fires=86,
                labels=({**DIGITS, "state": "running"},),
                resolved=112,
            ),
            AlertCase(
                about="a deadlock before the first step, in a script without one so far",
                series={
                    RUNNING: "1x100",
                    'trainwarden_phase{run="digits", phase="starting"}': "1x100",
                    'trainwarden_heartbeat_age_seconds{run="digits"}': "1x100",
                    'trainwarden_processes_cpu_seconds_total{run="digits"}': "0+0.45x100",
                },
                fires=65,
                labels=({**DIGITS, "state": "running"},),
            ),
            AlertCase(
                about="hours of validation, of the script's own steps, of what works",
                series={
                    'trainwarden_run_state{run="validates", state="running"}': "1x200",
                    'trainwarden_phase{run="validates", phase="validating"}': "1x200",
                    'trainwarden_step{run="validates"}': "7x200",
                    'trainwarden_processes_cpu_seconds_total{run="validates"}': "0+0.75x200",
                    'trainwarden_run_state{run="loops", state="running"}': "1x200",
                    'trainwarden_phase{run="loops", phase="between"}': "1x200",
                    'trainwarden_step{run="loops"}': "0x40 1x40 2x40 3x40 4x40",
                    'trainwarden_processes_cpu_seconds_total{run="loops"}': "0+0.2x200",
                    'trainwarden_run_state{run="phases", state="running"}': "1x200",
                    'trainwarden_phase{run="phases", phase="between"}': "1x50 0x9 1x50 0x9 1x50 0x9 1x20",
                    'trainwarden_phase{run="phases", phase="validating"}': "0x50 1x9 0x50 1x9 0x50 1x9 0x20",
                    'trainwarden_step{run="phases"}': "7x200",
                    'trainwarden_processes_cpu_seconds_total{run="phases"}': "0+0.2x200",
                },
                silent=190,
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
        expr=counted("trainwarden_restarts_total", more_than=2.5),
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
        name="TrainwardenNonFiniteLoss",
        severity=Severity.WARNING,
        expr="max by (instance, run) "
        "(trainwarden_loss != trainwarden_loss or abs(trainwarden_loss) == Inf)\nor\n"
        + counted('trainwarden_incidents_total{cause="non_finite_loss"}'),
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
        name="TrainwardenGoodputLow",
        severity=Severity.WARNING,
        why="The objective is 90 % of the time in steps. Fast: five times the allowed "
        "loss over an hour and still now; slow: twice over six hours and still now. A "
        "run that is younger than half an hour is left alone, and one that has ended: "
        "its averages outlive it.",
        expr=lasting(
            f"""\
(
  {GOODPUT_1H} < 0.5 and {GOODPUT} < 0.5
  or
  {GOODPUT_6H} < 0.8 and {GOODPUT_30M} < 0.8
)""",
            average=GOODPUT,
            since="30m",
        ),
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
        why="Against the run's own median of six hours, so it is over after three: what "
        "lasts longer is the new usual. Not after a change of slices or of the batch, "
        "which changes what a step costs, nor after a job was submitted anew under its "
        "name.",
        expr=f"""\
{STEP_MEAN} > {SLOWER} * {STEP_BASELINE}
and on (instance, run) {STEP_MEAN} offset 1h
unless on (instance, run) changes(trainwarden_microbatch_slices[6h]) > 0
unless on (instance, run) changes(trainwarden_effective_batch_samples[6h]) > 0
unless on (instance, run) resets(trainwarden_step_duration_seconds_count[6h]) > 0""",
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
                about="a larger batch; another model under the name of an old job",
                series={
                    'trainwarden_step_duration_seconds_sum{run="larger"}': "0+54x300",
                    'trainwarden_step_duration_seconds_count{run="larger"}': "0+540x120 64800+270x180",
                    'trainwarden_effective_batch_samples{run="larger"}': "32x120 64x180",
                    'trainwarden_step_duration_seconds_sum{run="anew"}': "0+54x120 0+54x180",
                    'trainwarden_step_duration_seconds_count{run="anew"}': "0+540x120 0+270x180",
                    'trainwarden_effective_batch_samples{run="anew"}': "32x300",
                },
                silent=290,
            ),
            AlertCase(
                about="a pace that stays slow is the new usual after three hours",
                series={
                    'trainwarden_step_duration_seconds_sum{run="digits"}': "0+54x700",
                    'trainwarden_step_duration_seconds_count{run="digits"}': "0+540x360 194400+270x340",
                },
                fires=384,
                labels=(DIGITS,),
                resolved=543,
            ),
            AlertCase(
                about="slices, a batch and a model that changed seven hours before",
                series={
                    'trainwarden_step_duration_seconds_sum{run="digits"}': "0+54x430 23220+54x120",
                    'trainwarden_step_duration_seconds_count{run="digits"}': "0+540x10 0+540x419 226530+270x60 243000+540x60",
                    'trainwarden_microbatch_slices{run="digits"}': "1x10 2x560",
                    'trainwarden_effective_batch_samples{run="digits"}': "32x10 64x560",
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
        expr=lasting(f"{IDLE_PART} > {IDLE}", average=IDLE_PART, since="15m"),
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
