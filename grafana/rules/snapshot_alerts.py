"""Alerts about the snapshots of runs: none comes, or none can be written or sent."""

from grafana.rules.alert import (
    DIGITS,
    RUN,
    RUNNING,
    TRAINING,
    Alert,
    AlertCase,
    Severity,
)
from grafana.rules.conditions import counted
from grafana.rules.recording_rules import ACTIVE, SNAPSHOT_LATE, SNAPSHOT_WAIT

BEHIND_SECONDS = 3600

SNAPSHOT_ALERTS: tuple[Alert, ...] = (
    Alert(
        name="TrainwardenSnapshotStale",
        severity=Severity.WARNING,
        why="Three planned intervals, and five minutes: a snapshot waits for the end of a "
        "long step. Counted from the newest one, or from where the attempt began to "
        "train. Where intervals are counted in steps there is none to compare with.",
        expr=f"{SNAPSHOT_LATE} > 3\nand (\n{SNAPSHOT_WAIT}\n) > 300",
        hold="5m",
        summary="{{ $labels.run }} has no new snapshot in its {{ $labels.tier }} tier.",
        description="{{ $labels.run }} on {{ $labels.instance }} has trained for more than "
        "three planned intervals without a new snapshot ({{ $labels.tier }}): a crash "
        "now costs that much work.",
        panel=(RUN, "Age of the newest snapshot"),
        cases=(
            AlertCase(
                about="snapshots that stop, and a validation in which none is due",
                series={
                    'trainwarden_snapshot_wait_seconds{run="digits", tier="durable"}': "60x10 60+60x30 60x20",
                    'trainwarden_snapshot_interval_seconds{run="digits", tier="durable"}': "120x60",
                    TRAINING: "1x60",
                    'trainwarden_snapshot_wait_seconds{run="validates", tier="durable"}': "60+60x60",
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
                    'trainwarden_snapshot_wait_seconds{run="digits", tier="durable"}': "60x10 400x30 60x20",
                    'trainwarden_snapshot_interval_seconds{run="digits", tier="durable"}': "100x60",
                    TRAINING: "1x60",
                    'trainwarden_snapshot_wait_seconds{run="late", tier="durable"}': "600x60",
                    'trainwarden_snapshot_interval_seconds{run="late", tier="durable"}': "240x60",
                    'trainwarden_phase{run="late", phase="training"}': "1x60",
                    'trainwarden_snapshot_wait_seconds{run="quick", tier="memory"}': "250x60",
                    'trainwarden_snapshot_interval_seconds{run="quick", tier="memory"}': "60x60",
                    'trainwarden_phase{run="quick", phase="training"}': "1x60",
                },
                fires=16,
                labels=({**DIGITS, "tier": "durable"},),
                resolved=42,
            ),
            AlertCase(
                about="exporters from before there was a wait, which tell the age alone",
                series={
                    'trainwarden_snapshot_age_seconds{run="digits", tier="durable"}': "60x10 60+60x30 60x20",
                    'trainwarden_snapshot_interval_seconds{run="digits", tier="durable"}': "120x60",
                    TRAINING: "1x60",
                    'trainwarden_snapshot_age_seconds{run="newer", tier="durable"}': "9000x60",
                    'trainwarden_snapshot_wait_seconds{run="newer", tier="durable"}': "60x60",
                    'trainwarden_snapshot_interval_seconds{run="newer", tier="durable"}': "120x60",
                    'trainwarden_phase{run="newer", phase="training"}': "1x60",
                },
                fires=22,
                labels=({**DIGITS, "tier": "durable"},),
                resolved=42,
            ),
            AlertCase(
                about="epochs that end every four minutes; a loop of the script's own",
                series={
                    'trainwarden_snapshot_wait_seconds{run="digits", tier="durable"}': "60x10 400x30 60x20",
                    'trainwarden_snapshot_interval_seconds{run="digits", tier="durable"}': "100x60",
                    TRAINING: "1x3 0 1x3 0 1x3 0 1x3 0 1x3 0 1x3 0 1x3 0 1x3 0 1x3 0 1x3 0 1x20",
                    'trainwarden_snapshot_wait_seconds{run="loops", tier="durable"}': "60x10 400x30 60x20",
                    'trainwarden_snapshot_interval_seconds{run="loops", tier="durable"}': "100x60",
                    'trainwarden_phase{run="loops", phase="training"}': "0x60",
                    'trainwarden_step{run="loops"}': "0+10x60",
                    'trainwarden_snapshot_wait_seconds{run="exports", tier="durable"}': "60x10 400x50",
                    'trainwarden_snapshot_interval_seconds{run="exports", tier="durable"}': "100x60",
                    'trainwarden_phase{run="exports", phase="training"}': "1x9 0x50",
                    'trainwarden_step{run="exports"}': "0+10x9 90x50",
                },
                fires=16,
                labels=(
                    {**DIGITS, "tier": "durable"},
                    {"run": "loops", "tier": "durable"},
                ),
                resolved=42,
            ),
        ),
    ),
    Alert(
        name="TrainwardenSnapshotFailing",
        severity=Severity.WARNING,
        expr=counted("trainwarden_snapshot_failures_total", by="instance, run, tier"),
        summary="Snapshots of {{ $labels.run }} cannot be written ({{ $labels.tier }}).",
        description="A snapshot of {{ $labels.run }} on {{ $labels.instance }} could not "
        "be written to its {{ $labels.tier }} tier in the last half hour. As long "
        "as it trains, a crash costs more.",
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
        name="TrainwardenRemoteSnapshotFailing",
        severity=Severity.WARNING,
        why="An upload that fails is tried again, ever more seldom: one is the network, "
        "three within half an hour are not.",
        expr=counted("trainwarden_remote_snapshot_failures_total", more_than=2.5),
        summary="Snapshots of {{ $labels.run }} cannot be sent to the remote tier.",
        description="Three uploads of {{ $labels.run }} on {{ $labels.instance }} or more "
        "failed within half an hour. Training goes on; losing the machine costs more.",
        panel=(RUN, "Snapshots sent a minute"),
        cases=(
            AlertCase(
                about="a store that refuses; a network that stutters",
                series={
                    'trainwarden_remote_snapshot_failures_total{run="digits"}': "0x10 1 2 3x60",
                    'trainwarden_remote_snapshot_failures_total{run="other"}': "0x10 1x9 2x51",
                },
                fires=13,
                labels=(DIGITS,),
                resolved=41,
            ),
        ),
    ),
    Alert(
        name="TrainwardenRemoteSnapshotStale",
        severity=Severity.WARNING,
        why="The newest one there was complete an hour before the newest on disk: "
        "whatever the intervals, it was not sent. Or none was sent for an hour, and nothing "
        "is there, or from before a reboot, whose clock was another. Half an hour more for "
        "an upload that is under way.",
        expr=f"""\
(
  max by (instance, run) (trainwarden_remote_snapshot_age_seconds)
  - max by (instance, run) (trainwarden_snapshot_age_seconds{{tier="durable"}})
  > {BEHIND_SECONDS}
  or
  max by (instance, run) (increase(trainwarden_remote_snapshots_total[1h])) == 0
  and on (instance, run) trainwarden_snapshot_age_seconds{{tier="durable"}} offset 1h
  unless on (instance, run) trainwarden_remote_snapshot_age_seconds
)
and on (instance, run) {ACTIVE} == 1""",
        hold="30m",
        summary="Snapshots of {{ $labels.run }} do not reach the remote tier.",
        description="The newest snapshot of {{ $labels.run }} on {{ $labels.instance }} was "
        "not sent to the remote tier for an hour and a half: losing the machine now "
        "costs that much work.",
        panel=(RUN, "Age of the newest one there"),
        cases=(
            AlertCase(
                about="uploads that stop; ones that are seldom; a run that has ended",
                series={
                    RUNNING: "1x200",
                    'trainwarden_remote_snapshot_age_seconds{run="digits"}': "60x10 60+60x120 60x70",
                    'trainwarden_snapshot_age_seconds{run="digits", tier="durable"}': "60x200",
                    'trainwarden_snapshot_age_seconds{run="digits", tier="memory"}': "60+60x200",
                    'trainwarden_run_state{run="seldom", state="running"}': "1x200",
                    'trainwarden_remote_snapshot_age_seconds{run="seldom"}': "0+60x120 7200x9 0+60x70",
                    'trainwarden_snapshot_age_seconds{run="seldom", tier="durable"}': "600+60x110 0+60x90",
                    'trainwarden_run_state{run="over", state="finished"}': "1x200",
                    'trainwarden_remote_snapshot_age_seconds{run="over"}': "7200+60x200",
                    'trainwarden_snapshot_age_seconds{run="over", tier="durable"}': "0+60x200",
                },
                fires=102,
                labels=(DIGITS,),
                resolved=132,
            ),
            AlertCase(
                about="nothing was ever sent; a run without a remote tier",
                series={
                    RUNNING: "1x200",
                    'trainwarden_remote_snapshots_total{run="digits"}': "0x200",
                    'trainwarden_snapshot_age_seconds{run="digits", tier="memory"}': "10x200",
                    'trainwarden_snapshot_age_seconds{run="digits", tier="durable"}': "_x20 60x180",
                    'trainwarden_run_state{run="local", state="running"}': "1x200",
                    'trainwarden_snapshot_age_seconds{run="local", tier="durable"}': "60x200",
                },
                fires=110,
                labels=(DIGITS,),
            ),
            AlertCase(
                about="uploads that stop before a reboot, after which no age is known",
                series={
                    RUNNING: "1x200",
                    'trainwarden_remote_snapshots_total{run="digits"}': "3x20 4x180",
                    'trainwarden_remote_snapshot_age_seconds{run="digits"}': "60x20 60+60x9 stale",
                    'trainwarden_snapshot_age_seconds{run="digits", tier="durable"}': "60x30 _x5 60x165",
                },
                fires=111,
                labels=(DIGITS,),
            ),
        ),
    ),
)
