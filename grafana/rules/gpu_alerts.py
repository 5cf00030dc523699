"""Alerts about GPUs and their driver."""

from grafana.rules.alert import Alert, AlertCase, Severity
from grafana.rules.conditions import counted

GPU = "trainwarden-gpu"
FIRST = {"gpu": "GPU-1"}
HOT_SHARE = 0.5
HARDWARE = "memory|nvlink|bus|hardware"

GPU_ALERTS: tuple[Alert, ...] = (
    Alert(
        name="TrainwardenGpuLost",
        severity=Severity.CRITICAL,
        expr="trainwarden_gpu_lost == 1",
        summary="GPU {{ $labels.gpu }} has fallen off the bus.",
        description="The driver of {{ $labels.instance }} does not reach the GPU "
        "{{ $labels.gpu }} any more. What ran on it has crashed or will.",
        panel=(GPU, "Lost"),
        cases=(
            AlertCase(
                about="a GPU falls off the bus, and is back after a reboot",
                series={
                    'trainwarden_gpu_lost{gpu="GPU-1"}': "0x10 1x10 0x10",
                    'trainwarden_gpu_lost{gpu="GPU-2"}': "0x30",
                },
                fires=11,
                labels=(FIRST,),
                resolved=22,
            ),
        ),
    ),
    Alert(
        name="TrainwardenGpuDriverHangs",
        severity=Severity.CRITICAL,
        why="A probe that hangs is replaced within half a minute; what lasts longer is a "
        "driver that answers nobody, or a driver that is not there.",
        expr='trainwarden_collector_success{collector="nvml"} == 0',
        hold="2m",
        summary="The GPU driver of {{ $labels.instance }} does not answer.",
        description="{{ $labels.instance }} has GPUs, or a run asks for some, and NVML has "
        "told nothing for two minutes.",
        panel=(GPU, "Collectors"),
        cases=(
            AlertCase(
                about="a driver that stays silent; a probe that is replaced is no alert",
                series={
                    'trainwarden_collector_success{collector="nvml"}': "1x5 0x10 1x10",
                    'trainwarden_collector_success{collector="kernel_log"}': "0x25",
                },
                fires=8,
                labels=({"collector": "nvml"},),
                resolved=17,
            ),
            AlertCase(
                about="a probe that is replaced",
                series={
                    'trainwarden_collector_success{collector="nvml"}': "1x5 0 1x10"
                },
                silent=8,
            ),
        ),
    ),
    Alert(
        name="TrainwardenGpuXidHardware",
        severity=Severity.CRITICAL,
        why="Kinds as NVIDIA's Xid catalogue has them: no program causes these.",
        expr=counted(
            f'trainwarden_gpu_xids_total{{kind=~"{HARDWARE}"}}',
            by="instance, gpu, kind",
        ),
        summary="The driver reports a hardware fault ({{ $labels.kind }}) of "
        "{{ $labels.gpu }}.",
        description="An Xid of kind {{ $labels.kind }} on GPU {{ $labels.gpu }} of "
        "{{ $labels.instance }} in the last half hour. A run that failed on it goes on "
        "elsewhere.",
        panel=(GPU, "Xids by kind"),
        cases=(
            AlertCase(
                about="a double-bit error; faults of programs are another alert",
                series={
                    'trainwarden_gpu_xids_total{gpu="GPU-1", kind="memory"}': "0x10 1x50",
                    'trainwarden_gpu_xids_total{gpu="GPU-1", kind="software"}': "0+1x60",
                },
                fires=11,
                labels=({**FIRST, "kind": "memory"},),
                resolved=41,
            ),
        ),
    ),
    Alert(
        name="TrainwardenGpuXidSoftware",
        severity=Severity.INFO,
        why="One is a program's mistake, and its run says so; many are worth a look.",
        expr=counted(
            'trainwarden_gpu_xids_total{kind=~"software|other"}',
            more_than=4.5,
            within="1h",
            by="instance, gpu, kind",
        ),
        summary="Programs fail again and again on {{ $labels.gpu }}.",
        description="Five Xids of kind {{ $labels.kind }} or more on GPU "
        "{{ $labels.gpu }} of {{ $labels.instance }} within an hour.",
        panel=(GPU, "Xids by kind"),
        cases=(
            AlertCase(
                about="a mistake now and then, and one that is made again and again",
                series={
                    'trainwarden_gpu_xids_total{gpu="GPU-1", kind="software"}': "0x10 1x5 2x5 3x5 4x5 6x100",
                    'trainwarden_gpu_xids_total{gpu="GPU-2", kind="software"}': "0x10 1x60 2x60",
                    'trainwarden_gpu_xids_total{gpu="GPU-2", kind="memory"}': "0x10 6x120",
                },
                fires=35,
                labels=({**FIRST, "kind": "software"},),
                resolved=77,
            ),
        ),
    ),
    Alert(
        name="TrainwardenGpuKeptOut",
        severity=Severity.WARNING,
        why="Out of service by a person is no alert, and ends this one.",
        expr="""\
trainwarden_gpu_kept_out == 1
unless on (instance, gpu) trainwarden_gpu_kept_out{reason="out_of_service"} == 1""",
        hold="15m",
        summary="GPU {{ $labels.gpu }} failed and is given to no run.",
        description="GPU {{ $labels.gpu }} of {{ $labels.instance }} is in quarantine: a "
        "run failed because of it. It earns nothing until somebody looks at it.",
        panel=(GPU, "Kept out of use"),
        cases=(
            AlertCase(
                about="quarantine, then returned; another that a person took out",
                series={
                    'trainwarden_gpu_kept_out{gpu="GPU-1", reason="quarantine"}': "0x5 1x30 0x10",
                    'trainwarden_gpu_kept_out{gpu="GPU-2", reason="out_of_service"}': "1x45",
                },
                fires=21,
                labels=({**FIRST, "reason": "quarantine"},),
                resolved=37,
            ),
            AlertCase(
                about="quarantine, until a person takes it out of service",
                series={
                    'trainwarden_gpu_kept_out{gpu="GPU-1", reason="quarantine"}': "0x5 1x60",
                    'trainwarden_gpu_kept_out{gpu="GPU-1", reason="out_of_service"}': "0x36 1x30",
                },
                fires=21,
                labels=({**FIRST, "reason": "quarantine"},),
                resolved=37,
            ),
        ),
    ),
    Alert(
        name="TrainwardenGpuEccErrors",
        severity=Severity.CRITICAL,
        expr=counted(
            'trainwarden_gpu_ecc_errors_total{kind="uncorrected", span="volatile"}',
            within="1h",
            by="instance, gpu",
        ),
        summary="Memory of GPU {{ $labels.gpu }} has errors that ECC cannot correct.",
        description="GPU {{ $labels.gpu }} of {{ $labels.instance }} met an uncorrectable "
        "memory error within the last hour.",
        panel=(GPU, "Memory errors"),
        cases=(
            AlertCase(
                about="an uncorrectable error; corrected ones are everyday",
                series={
                    'trainwarden_gpu_ecc_errors_total{gpu="GPU-1", span="volatile", kind="uncorrected"}': "0x10 1x90",
                    'trainwarden_gpu_ecc_errors_total{gpu="GPU-2", span="volatile", kind="corrected"}': "0+1x100",
                    'trainwarden_gpu_ecc_errors_total{gpu="GPU-3", span="aggregate", kind="uncorrected"}': "0x10 1x90",
                },
                fires=11,
                labels=(FIRST,),
                resolved=71,
            ),
        ),
    ),
    Alert(
        name="TrainwardenGpuRemapFailed",
        severity=Severity.CRITICAL,
        expr="trainwarden_gpu_remap_failed == 1",
        summary="GPU {{ $labels.gpu }} has no spare rows of memory left.",
        description="A row of memory of GPU {{ $labels.gpu }} of {{ $labels.instance }} "
        "could not be replaced: the board should be.",
        panel=(GPU, "Row remapping"),
        cases=(
            AlertCase(
                about="no spare left, until the board is replaced",
                series={'trainwarden_gpu_remap_failed{gpu="GPU-1"}': "0x10 1x10 0x10"},
                fires=11,
                labels=(FIRST,),
                resolved=22,
            ),
        ),
    ),
    Alert(
        name="TrainwardenGpuRemapPending",
        severity=Severity.WARNING,
        expr="trainwarden_gpu_remap_pending == 1",
        hold="1h",
        summary="GPU {{ $labels.gpu }} must be reset to replace a row of memory.",
        description="GPU {{ $labels.gpu }} of {{ $labels.instance }} has a bad row of "
        "memory, which is replaced at its next reset.",
        panel=(GPU, "Row remapping"),
        cases=(
            AlertCase(
                about="a reset that nobody does, and then somebody",
                series={'trainwarden_gpu_remap_pending{gpu="GPU-1"}': "0x10 1x80 0x10"},
                fires=71,
                labels=(FIRST,),
                resolved=92,
            ),
        ),
    ),
    Alert(
        name="TrainwardenGpuThermalThrottling",
        severity=Severity.WARNING,
        why="Not hardware_slowdown: NVML sets that for a power brake as well; heat has "
        "hardware_thermal beside it.",
        expr=f"""\
max by (instance, gpu) (
  avg_over_time(trainwarden_gpu_throttled{{reason=~"thermal|hardware_thermal"}}[15m])
) > {HOT_SHARE}""",
        hold="5m",
        summary="GPU {{ $labels.gpu }} is too hot and slows down.",
        description="Heat kept the clocks of GPU {{ $labels.gpu }} of "
        "{{ $labels.instance }} down for most of a quarter of an hour.",
        panel=(GPU, "Throttled because"),
        cases=(
            AlertCase(
                about="a fan that fails, and is replaced; a power cap is no heat, nor a brake",
                series={
                    'trainwarden_gpu_throttled{gpu="GPU-1", reason="thermal"}': "0x20 1x30 0x30",
                    'trainwarden_gpu_throttled{gpu="GPU-2", reason="power_cap"}': "1x80",
                    'trainwarden_gpu_throttled{gpu="GPU-3", reason="hardware_slowdown"}': "1x80",
                    'trainwarden_gpu_throttled{gpu="GPU-3", reason="power_brake"}': "1x80",
                },
                fires=34,
                labels=(FIRST,),
                resolved=59,
            ),
        ),
    ),
    Alert(
        name="TrainwardenGpuPowerThrottling",
        severity=Severity.WARNING,
        why="Not power_cap: at full load a healthy board is at its own cap most of the "
        "time. These two come from outside: the supply, or a limit of the board.",
        expr=f"""\
max by (instance, gpu) (
  avg_over_time(trainwarden_gpu_throttled{{reason=~"power_brake|board_limit"}}[15m])
) > {HOT_SHARE}""",
        hold="5m",
        summary="GPU {{ $labels.gpu }} gets too little power and slows down.",
        description="The power supply or the board kept the clocks of GPU "
        "{{ $labels.gpu }} of {{ $labels.instance }} down for most of a quarter of an "
        "hour.",
        panel=(GPU, "Throttled because"),
        cases=(
            AlertCase(
                about="a power supply that fails, and is replaced",
                series={
                    'trainwarden_gpu_throttled{gpu="GPU-1", reason="power_brake"}': "0x20 1x30 0x30",
                    'trainwarden_gpu_throttled{gpu="GPU-2", reason="power_cap"}': "1x80",
                },
                fires=34,
                labels=(FIRST,),
                resolved=59,
            ),
        ),
    ),
)
