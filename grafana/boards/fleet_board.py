"""All boxes: what runs, what is lost, what is idle, who waits."""

from grafana.boards.board import (
    AMBER,
    BLUE,
    BOX,
    GREEN,
    GREY,
    INSTANCE,
    RED,
    Board,
    BoardPanel,
    BoardRow,
    Kind,
    Query,
)
from grafana.rules.memory_alerts import LEAK_SECONDS, SOON_SECONDS
from grafana.rules.recording_rules import ACTIVE, GOODPUT

STATES = {
    "running": ("running", GREEN),
    "queued": ("queued", GREY),
    "launching": ("starting", BLUE),
    "waiting": ("between attempts", AMBER),
    "draining": ("saving", BLUE),
    "killing": ("ending", AMBER),
    "finished": ("finished", GREEN),
    "drained": ("stopped", GREY),
    "gave_up": ("gave up", RED),
    "interrupted": ("nobody looks after it", RED),
}
NONE_IS_GOOD = ((None, GREEN), (1.0, RED))
GOODPUT_LIMITS = ((None, RED), (0.5, AMBER), (0.8, GREEN))

RUNS_TABLE = BoardPanel(
    title="Runs",
    about="Every run of these boxes that is shown, by box: equal names stay apart. Click "
    "a box or a run to go there. Goodput over 0.8 is good; a growing number of restarts "
    "is not.",
    kind=Kind.TABLE,
    width=24,
    height=9,
    queries=(
        Query(
            expr=f"max by (instance, run, state) (trainwarden_run_state{{{BOX}}} == 1)",
            title="in state",
        ),
        Query(
            expr=f"max by (instance, run) (trainwarden_attempts_total{{{BOX}}})",
            title="attempts",
        ),
        Query(
            expr=f"sum by (instance, run) (trainwarden_restarts_total{{{BOX}}})",
            title="restarts",
        ),
        Query(
            expr=f"max by (instance, run) (trainwarden_step{{{BOX}}})", title="steps"
        ),
        Query(expr=f"max by (instance, run) ({GOODPUT}{{{BOX}}})", title="goodput"),
        Query(
            expr=f"min by (instance, run) (trainwarden_snapshot_age_seconds{{{BOX}}})",
            title="snapshot age",
        ),
    ),
    names=STATES,
    units={"goodput": "percentunit", "snapshot age": "s"},
    drop=("Time", "in state"),
)

FLEET = Board(
    uid="trainwarden-fleet",
    title="Trainwarden: fleet",
    about="All boxes. Start here; a click on a box or a run leads down.",
    variables=(INSTANCE,),
    rows=(
        BoardRow(
            "Now",
            (
                BoardPanel(
                    title="Boxes",
                    about="Exporters of the scrape job `trainwarden` that answer. As many "
                    "as there are boxes is good.",
                    kind=Kind.STAT,
                    width=3,
                    height=5,
                    queries=(
                        Query(
                            expr='count(up{job="trainwarden"} == 1) or vector(0)',
                            legend="up",
                        ),
                    ),
                    limits=((None, RED), (1.0, GREEN)),
                ),
                BoardPanel(
                    title="Boxes down",
                    about="Exporters that do not answer. 0 is good.",
                    kind=Kind.STAT,
                    width=3,
                    height=5,
                    queries=(
                        Query(
                            expr='count(up{job="trainwarden"} == 0) or vector(0)',
                            legend="down",
                        ),
                    ),
                    limits=NONE_IS_GOOD,
                ),
                BoardPanel(
                    title="Alerts firing",
                    about="Of Trainwarden's own alerts, by severity. 0 is good.",
                    kind=Kind.STAT,
                    width=5,
                    height=5,
                    queries=(
                        Query(
                            expr='count by (severity) (ALERTS{alertname=~"Trainwarden.+",alertstate="firing"}) '
                            "or on () label_replace(vector(0), "
                            '"severity", "none", "", "")',
                            legend="{{severity}}",
                        ),
                    ),
                    limits=NONE_IS_GOOD,
                ),
                BoardPanel(
                    title="Jobs by state",
                    about="What the daemons have. None should have given up.",
                    kind=Kind.STAT,
                    width=8,
                    height=5,
                    queries=(
                        Query(
                            expr=f"sum by (state) (trainwarden_jobs{{{BOX}}})",
                            legend="{{state}}",
                        ),
                    ),
                ),
                BoardPanel(
                    title="GPUs that are out",
                    about="Lost, in quarantine, or taken out of service. 0 is good.",
                    kind=Kind.STAT,
                    width=5,
                    height=5,
                    queries=(
                        Query(
                            expr=f"sum(trainwarden_gpu_lost{{{BOX}}}) or vector(0)",
                            legend="lost",
                        ),
                        Query(
                            expr=f"sum by (reason) (trainwarden_gpu_kept_out{{{BOX}}})",
                            legend="{{reason}}",
                        ),
                    ),
                    limits=NONE_IS_GOOD,
                ),
            ),
        ),
        BoardRow(
            "Runs and alerts",
            (
                RUNS_TABLE,
                BoardPanel(
                    title="Firing",
                    about="Trainwarden's alerts that fire now, with box, run and GPU.",
                    kind=Kind.TABLE,
                    width=14,
                    queries=(
                        Query(
                            expr='ALERTS{alertname=~"Trainwarden.+",alertstate="firing"}',
                            title="firing",
                        ),
                    ),
                    drop=("Time", "firing", "__name__", "alertstate"),
                    empty_because="no alert fires in health",
                ),
                BoardPanel(
                    title="Who runs out of memory next",
                    about="Time until memory runs out where it grows. Under half an hour "
                    "a restart at a snapshot is due; nothing here is good.",
                    kind=Kind.TABLE,
                    width=10,
                    queries=(
                        Query(
                            expr="bottomk(10, min by (instance, run, resource) "
                            f"(trainwarden_memory_forecast_seconds{{{BOX}}}))",
                            title="left",
                        ),
                    ),
                    unit="s",
                    units={"left": "s"},
                    limits=(
                        (None, RED),
                        (SOON_SECONDS, AMBER),
                        (LEAK_SECONDS, GREEN),
                    ),
                    drop=("Time",),
                    empty_because="memory does not grow in health",
                ),
            ),
        ),
        BoardRow(
            "What it comes to",
            (
                BoardPanel(
                    title="Goodput",
                    about="Part of the time of each run that goes into steps that count. "
                    "Over 0.9 is the objective.",
                    queries=(
                        Query(
                            expr=f"{GOODPUT}{{{BOX}}}", legend="{{instance}} {{run}}"
                        ),
                    ),
                    unit="percentunit",
                    most=1.0,
                    limits=GOODPUT_LIMITS,
                ),
                BoardPanel(
                    title="Restarts by cause",
                    about="In the last hour, of all runs. 0 is good.",
                    queries=(
                        Query(
                            expr=f"sum by (cause) (increase(trainwarden_restarts_total{{{BOX}}}[1h])) > 0 "
                            "or on () label_replace(vector(0), "
                            '"cause", "none", "", "")',
                            legend="{{cause}}",
                        ),
                    ),
                    stacked=True,
                ),
                BoardPanel(
                    title="Active runs",
                    about="Runs that should make progress, by box.",
                    queries=(
                        Query(
                            expr=f"sum by (instance) ({ACTIVE}{{{BOX}}})",
                            legend="{{instance}}",
                        ),
                    ),
                    stacked=True,
                ),
                BoardPanel(
                    title="GPUs by use",
                    about="How many GPUs work in a run, idle in one, are free or out. "
                    "Busy is good; idle is paid for and unused.",
                    queries=(
                        Query(
                            expr=f"sum by (use) (rate(trainwarden_gpu_time_seconds_total{{{BOX}}}[$__rate_interval]))",
                            legend="{{use}}",
                        ),
                    ),
                    stacked=True,
                ),
                BoardPanel(
                    title="GPU hours by use",
                    about="Over the time that is shown.",
                    kind=Kind.STAT,
                    queries=(
                        Query(
                            expr=f"sum by (use) (increase(trainwarden_gpu_time_seconds_total{{{BOX}}}[$__range])) / 3600",
                            legend="{{use}}",
                        ),
                    ),
                    unit="h",
                ),
                BoardPanel(
                    title="Idle GPUs",
                    about="Those that did least over the time that is shown, in hours: "
                    "idle in a run, or given to none. Click one to see it. None is good.",
                    kind=Kind.TABLE,
                    queries=(
                        Query(
                            expr=f'topk(10, sum by (instance, gpu, use) (increase(trainwarden_gpu_time_seconds_total{{{BOX},use=~"idle|free"}}[$__range])) / 3600 > 0)',
                            title="hours",
                        ),
                    ),
                    units={"hours": "h"},
                    drop=("Time",),
                    empty_because="every GPU worked all of the time",
                ),
                BoardPanel(
                    title="GPU hours by user",
                    about="What the runs of each user held, working or not, over the "
                    "time that is shown.",
                    kind=Kind.STAT,
                    queries=(
                        Query(
                            expr=f"sum by (user, use) (increase(trainwarden_user_gpu_time_seconds_total{{{BOX}}}[$__range])) / 3600",
                            legend="{{user}} {{use}}",
                        ),
                    ),
                    unit="h",
                ),
                BoardPanel(
                    title="Jobs by user",
                    about="Jobs that wait or run, by user.",
                    width=12,
                    queries=(
                        Query(
                            expr=f'sum by (user, state) (trainwarden_jobs{{{BOX},state=~"queued|launching|running|waiting|draining|killing"}})',
                            legend="{{user}} {{state}}",
                        ),
                    ),
                    stacked=True,
                ),
                BoardPanel(
                    title="Longest wait",
                    about="How long a job of each user has waited for its turn. 0: none "
                    "waits. Over four hours somebody should look.",
                    width=12,
                    queries=(
                        Query(
                            expr=f"max by (user) (trainwarden_queue_longest_wait_seconds{{{BOX}}})",
                            legend="{{user}}",
                        ),
                    ),
                    unit="s",
                    limits=((None, GREEN), (4 * 3600.0, RED)),
                ),
            ),
        ),
    ),
)
