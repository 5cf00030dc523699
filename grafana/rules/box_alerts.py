"""Alerts about boxes: the daemon, its disks, its queue, and whether it is seen at all."""

from grafana.rules.alert import Alert, AlertCase, Severity
from grafana.rules.recording_rules import FREE_PART

BOX = "trainwarden-box"
FLEET = "trainwarden-fleet"
WAIT_SECONDS = 4 * 3600
SCARCE, LAST = 0.4, 0.05

BOX_ALERTS: tuple[Alert, ...] = (
    Alert(
        name="TrainwardenBoxDown",
        severity=Severity.CRITICAL,
        why="Of the scrape job of that name: runs in the foreground, whose exporter ends "
        "with them, belong into another.",
        expr='up{job="trainwarden"} == 0',
        hold="5m",
        summary="{{ $labels.instance }} does not answer.",
        description="Prometheus has not reached the exporter of {{ $labels.instance }} "
        "for five minutes: the box, its daemon or the network is down. Its other alerts "
        "are inhibited.",
        panel=(FLEET, "Boxes"),
        cases=(
            AlertCase(
                about="a box that goes down and comes back; a run in the foreground",
                series={
                    'up{job="trainwarden"}': "1x10 0x20 1x10",
                    'up{job="trainwarden-runs"}': "0x40",
                },
                fires=16,
                labels=({"job": "trainwarden"},),
                resolved=32,
            ),
        ),
    ),
    Alert(
        name="TrainwardenExporterAbsent",
        severity=Severity.CRITICAL,
        why="Of the scrape job of daemons, as BoxDown: one run in the foreground, or a "
        "pod, is no box.",
        expr='absent(trainwarden_build_info{job="trainwarden"})',
        hold="10m",
        summary="Nothing of Trainwarden is scraped at all.",
        description="Prometheus has no series of any box: no other alert can fire but those "
        "of runs in the foreground.",
        panel=(FLEET, "Boxes"),
        cases=(
            AlertCase(
                about="a target that was taken out of the configuration",
                series={
                    'trainwarden_build_info{job="trainwarden", version="1"}': "1x10 _x20 1x10",
                    'trainwarden_build_info{job="trainwarden-runs", version="1"}': "1x40",
                },
                fires=26,
                labels=({"job": "trainwarden"},),
                resolved=31,
                instance=False,
            ),
        ),
    ),
    Alert(
        name="TrainwardenCollectorFailing",
        severity=Severity.WARNING,
        why="NVML has an alert of its own.",
        expr='trainwarden_collector_success{collector!="nvml"} == 0',
        hold="10m",
        summary="{{ $labels.instance }} cannot measure: {{ $labels.collector }}.",
        description="The collector {{ $labels.collector }} of {{ $labels.instance }} "
        "hangs or fails: what it measures is missing, on dashboards and in diagnoses.",
        panel=(BOX, "Collectors"),
        cases=(
            AlertCase(
                about="a file system that hangs",
                series={
                    'trainwarden_collector_success{collector="host"}': "1x5 0x20 1x10",
                    'trainwarden_collector_success{collector="nvml"}': "0x35",
                },
                fires=16,
                labels=({"collector": "host"},),
                resolved=27,
            ),
        ),
    ),
    Alert(
        name="TrainwardenDaemonRestarts",
        severity=Severity.WARNING,
        why="Of the scrape job of daemons: who starts runs in the foreground is no box.",
        expr='changes(trainwarden_start_time_seconds{job="trainwarden"}[1h]) > 2',
        summary="The daemon of {{ $labels.instance }} was restarted three times in an "
        "hour.",
        description="Training goes on without the daemon of {{ $labels.instance }}, but "
        "nobody restarts what crashes while it is away.",
        panel=(BOX, "Daemon up for"),
        cases=(
            AlertCase(
                about="a daemon that is killed again and again; an upgrade",
                series={
                    'trainwarden_start_time_seconds{job="trainwarden"}': "100x10 200x10 300x10 400x100",
                    'trainwarden_start_time_seconds{job="trainwarden", of="upgraded"}': "100x10 200x120",
                    'trainwarden_start_time_seconds{job="trainwarden-runs"}': "100x10 200x10 300x10 400x100",
                },
                fires=33,
                labels=({"job": "trainwarden"},),
                resolved=71,
            ),
        ),
    ),
    Alert(
        name="TrainwardenLedgerInMemory",
        severity=Severity.CRITICAL,
        expr="trainwarden_ledger_behind == 1",
        hold="2m",
        summary="{{ $labels.instance }} cannot write its ledger.",
        description="What happens on {{ $labels.instance }} is kept in memory because "
        "the ledger cannot be written (a full disk, usually). It is lost if the daemon "
        "dies now.",
        panel=(BOX, "Ledger"),
        cases=(
            AlertCase(
                about="a disk that is full, and is tidied",
                series={
                    'trainwarden_ledger_behind{job="trainwarden"}': "0x5 1x10 0x10"
                },
                fires=8,
                labels=({"job": "trainwarden"},),
                resolved=17,
            ),
        ),
    ),
    Alert(
        name="TrainwardenFilesystemWillFill",
        severity=Severity.WARNING,
        why="Full within four hours as the last hour went, and not much left; or hardly "
        "anything left. `memory` is where snapshots in memory lie (/dev/shm).",
        expr=f"""\
(
  {FREE_PART} < {SCARCE}
  and on (instance, filesystem)
  predict_linear(trainwarden_filesystem_free_bytes[1h], 4 * 3600) < 0
)
or
{FREE_PART} < {LAST}""",
        hold="15m",
        summary="{{ $labels.instance }} runs out of room ({{ $labels.filesystem }}).",
        description="The file system of {{ $labels.filesystem }} on "
        "{{ $labels.instance }} is nearly full, or will be within four hours. Snapshots "
        "fail then, and training pauses.",
        panel=(BOX, "Room on file systems"),
        cases=(
            AlertCase(
                about="a disk that fills and is tidied; a large one that is used; a full "
                "one",
                series={
                    'trainwarden_filesystem_free_bytes{filesystem="state"}': "390x60 388-2x120 390x100",
                    'trainwarden_filesystem_size_bytes{filesystem="state"}': "1000x290",
                    'trainwarden_filesystem_free_bytes{filesystem="memory"}': "1000-5x100 500x190",
                    'trainwarden_filesystem_size_bytes{filesystem="memory"}': "1000x290",
                },
                fires=113,
                labels=({"filesystem": "state"},),
                resolved=185,
            ),
            AlertCase(
                about="hardly anything left, whatever the trend",
                series={
                    'trainwarden_filesystem_free_bytes{filesystem="memory"}': "900x10 40x100 900x30",
                    'trainwarden_filesystem_size_bytes{filesystem="memory"}': "1000x142",
                    'trainwarden_filesystem_free_bytes{filesystem="state"}': "60x142",
                    'trainwarden_filesystem_size_bytes{filesystem="state"}': "1000x142",
                },
                fires=26,
                labels=({"filesystem": "memory"},),
                resolved=112,
            ),
        ),
    ),
    Alert(
        name="TrainwardenJobWaitsTooLong",
        severity=Severity.INFO,
        expr=f"trainwarden_queue_longest_wait_seconds > {WAIT_SECONDS}",
        hold="5m",
        summary="A job of {{ $labels.user }} has waited for four hours.",
        description="A job of {{ $labels.user }} on {{ $labels.instance }} has waited for "
        "its turn for more than four hours.",
        panel=(BOX, "Longest wait"),
        cases=(
            AlertCase(
                about="a job that waits, then runs",
                series={
                    'trainwarden_queue_longest_wait_seconds{user="anna"}': "14000+60x30 0x10",
                    'trainwarden_queue_longest_wait_seconds{user="ben"}': "0x40",
                },
                fires=12,
                labels=({"user": "anna"},),
                resolved=31,
            ),
        ),
    ),
)
