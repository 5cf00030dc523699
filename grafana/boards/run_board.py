"""One run: progress, time, snapshots, incidents."""

from grafana.boards.board import (
    AMBER,
    BLUE,
    GREEN,
    GREY,
    INSTANCE,
    NEW_ATTEMPTS,
    NEW_INCIDENTS,
    ONE_RUN,
    RED,
    RUN,
    Board,
    BoardPanel,
    BoardRow,
    Kind,
    Query,
)
from grafana.boards.fleet_board import GOODPUT_LIMITS
from grafana.boards.snapshot_rows import SNAPSHOT_ROWS, WHOSE
from grafana.rules.recording_rules import (
    GOODPUT,
    GOODPUT_1H,
    GOODPUT_6H,
    GOODPUT_30M,
    IDLE_PART,
    STEP_BASELINE,
    STEP_MEAN,
)
from grafana.rules.run_alerts import SLOWER


def _latest(title: str, about: str, expr: str, **more: str) -> BoardPanel:
    return BoardPanel(
        title=title,
        about=about,
        kind=Kind.STAT,
        width=4,
        height=5,
        queries=(Query(expr=expr, legend=WHOSE),),
        unit=more.get("unit", "short"),
    )


def _by_cause(counter: str) -> tuple[Query, ...]:
    return (
        Query(
            expr=f"sum by (instance, run, cause) ({counter}{{{RUN}}}) > 0\n"
            f"or on (instance, run) sum by (instance, run) ({counter}{{{RUN}}})",
            legend=f"{WHOSE} {{{{cause}}}}",
        ),
    )


LEFT = f"""\
(
  max by (instance, run) (trainwarden_epochs_planned{{{RUN}}} * trainwarden_steps_per_epoch{{{RUN}}})
  - max by (instance, run) (trainwarden_step{{{RUN}}})
)
* on (instance, run) {STEP_MEAN}{{{RUN}}}
/ on (instance, run) ({GOODPUT}{{{RUN}}} > 0)"""

RUN_BOARD = Board(
    uid="trainwarden-run",
    title="Trainwarden: run",
    about="One run or several: where they are, what they cost, and what went wrong.",
    variables=(INSTANCE, ONE_RUN),
    annotations=(NEW_ATTEMPTS, NEW_INCIDENTS),
    rows=(
        BoardRow(
            "Now",
            (
                BoardPanel(
                    title="State",
                    about="Running or finished is good; gave up needs a person.",
                    kind=Kind.STAT,
                    width=4,
                    height=5,
                    queries=(
                        Query(
                            expr=f"max by (instance, run, state) (trainwarden_run_state{{{RUN}}} == 1)",
                            legend="{{run}}: {{state}} ({{instance}})",
                        ),
                    ),
                    by_name=True,
                ),
                _latest(
                    "Attempt",
                    "Training processes started so far. 1 is good.",
                    f"max by (instance, run) (trainwarden_attempts_total{{{RUN}}})",
                ),
                _latest(
                    "Epoch",
                    "The epoch in progress, counted from 1 here.",
                    f"max by (instance, run) (trainwarden_epoch{{{RUN}}}) + 1",
                ),
                _latest(
                    "Time left",
                    "Steps that are left of the current fit, at the pace and goodput of "
                    "now. Of a run with several fits only the current one is known.",
                    f"clamp_min({LEFT}, 0)",
                    unit="s",
                ),
                BoardPanel(
                    title="Last sign of life",
                    about="Seconds since training last said anything. Some seconds are "
                    "good; it is called stalled after ten minutes.",
                    kind=Kind.STAT,
                    width=4,
                    height=5,
                    queries=(
                        Query(
                            expr=f"max by (instance, run) (trainwarden_heartbeat_age_seconds{{{RUN}}})",
                            legend=WHOSE,
                        ),
                    ),
                    unit="s",
                    limits=((None, GREEN), (60.0, AMBER), (600.0, RED)),
                ),
                BoardPanel(
                    title="Resumes put to the proof",
                    about="Resumes that were shown to continue to the bit, by result. "
                    "`differs` should be 0.",
                    kind=Kind.STAT,
                    width=4,
                    height=5,
                    queries=(
                        Query(
                            expr=f"sum by (result) (trainwarden_resume_proofs_total{{{RUN}}})",
                            legend="{{result}}",
                        ),
                    ),
                ),
                BoardPanel(
                    title="State over time",
                    about="All of the time running is good.",
                    kind=Kind.TIMELINE,
                    width=12,
                    queries=(
                        Query(
                            expr=f"max by (instance, run, state) (trainwarden_run_state{{{RUN}}}) == 1",
                            legend=f"{WHOSE} {{{{state}}}}",
                        ),
                    ),
                    names={"1": ("yes", GREEN)},
                    limits=((None, GREY), (1.0, GREEN)),
                ),
                BoardPanel(
                    title="Phase over time",
                    about="What the training process does.",
                    kind=Kind.TIMELINE,
                    width=12,
                    queries=(
                        Query(
                            expr=f"max by (instance, run, phase) (trainwarden_phase{{{RUN}}}) == 1",
                            legend=f"{WHOSE} {{{{phase}}}}",
                        ),
                    ),
                    names={"1": ("yes", BLUE)},
                    limits=((None, GREY), (1.0, BLUE)),
                ),
            ),
        ),
        BoardRow(
            "Progress",
            (
                BoardPanel(
                    title="Progress",
                    about="Steps done, and the step of the newest snapshot: a crash now "
                    "goes back to that one. A straight line upwards is good. The loss is "
                    "looked at now and then: the step that it is of.",
                    queries=(
                        Query(
                            expr=f"max by (instance, run) (trainwarden_step{{{RUN}}})",
                            legend=f"{WHOSE} steps",
                        ),
                        Query(
                            expr=f"max by (instance, run) (trainwarden_snapshot_step{{{RUN}}})",
                            legend=f"{WHOSE} snapshot",
                        ),
                        Query(
                            expr=f"max by (instance, run) (trainwarden_remote_snapshot_step{{{RUN}}})",
                            legend=f"{WHOSE} snapshot elsewhere",
                        ),
                        Query(
                            expr=f"max by (instance, run) (trainwarden_loss_step{{{RUN}}})",
                            legend=f"{WHOSE} loss",
                        ),
                    ),
                ),
                BoardPanel(
                    title="Samples",
                    about="Samples seen since the run began, steps done again not twice.",
                    queries=(
                        Query(
                            expr=f"max by (instance, run) (trainwarden_samples{{{RUN}}})",
                            legend=WHOSE,
                        ),
                    ),
                ),
                BoardPanel(
                    title="Loss",
                    about="The training loss as Keras shows it. Downwards is good; a gap "
                    "in the line is NaN, or no training process.",
                    queries=(
                        Query(
                            expr=f"max by (instance, run) (trainwarden_loss{{{RUN}}})",
                            legend=WHOSE,
                        ),
                    ),
                    least=None,
                ),
                BoardPanel(
                    title="Goodput",
                    about="Part of the time that goes into steps and validation, less "
                    "steps done again; also over longer. 0.9 is the objective.",
                    queries=(
                        Query(expr=f"{GOODPUT}{{{RUN}}}", legend=f"{WHOSE} 5 min"),
                        Query(expr=f"{GOODPUT_30M}{{{RUN}}}", legend=f"{WHOSE} 30 min"),
                        Query(expr=f"{GOODPUT_1H}{{{RUN}}}", legend=f"{WHOSE} 1 h"),
                        Query(expr=f"{GOODPUT_6H}{{{RUN}}}", legend=f"{WHOSE} 6 h"),
                    ),
                    unit="percentunit",
                    most=1.0,
                    limits=GOODPUT_LIMITS,
                ),
                BoardPanel(
                    title="Where the time goes",
                    about="Share of each phase, waiting and being down. Much of anything "
                    "but training and validating is lost time. A phase counts when it "
                    "ends.",
                    queries=(
                        Query(
                            expr=f"sum by (instance, run, phase) (rate(trainwarden_phase_seconds_total{{{RUN}}}[$__rate_interval]))",
                            legend=f"{WHOSE} {{{{phase}}}}",
                        ),
                    ),
                    unit="percentunit",
                    stacked=True,
                ),
                BoardPanel(
                    title="GPU time by use",
                    about="What the GPUs of the run did: busy is good.",
                    queries=(
                        Query(
                            expr=f"sum by (instance, run, use) (rate(trainwarden_run_gpu_time_seconds_total{{{RUN}}}[$__rate_interval]))",
                            legend=f"{WHOSE} {{{{use}}}}",
                        ),
                        Query(
                            expr=f"{IDLE_PART}{{{RUN}}}",
                            legend=f"{WHOSE} idle, of 30 min",
                        ),
                    ),
                    unit="percentunit",
                ),
            ),
        ),
        BoardRow(
            "Steps",
            (
                BoardPanel(
                    title="Time a step",
                    about="The mean of five minutes; what is usual for this run, its median "
                    "of six hours; and half as long again. Below that is good.",
                    queries=(
                        Query(expr=f"{STEP_MEAN}{{{RUN}}}", legend=f"{WHOSE} now"),
                        Query(
                            expr=f"{STEP_BASELINE}{{{RUN}}}", legend=f"{WHOSE} usual"
                        ),
                        Query(
                            expr=f"{SLOWER} * {STEP_BASELINE}{{{RUN}}}",
                            legend=f"{WHOSE} slow from here on",
                        ),
                    ),
                    unit="s",
                ),
                BoardPanel(
                    title="Time a step, of what is usual",
                    about="The mean of five minutes as a part of the run's own median of six "
                    "hours, over the band of its history. In the green is good; in the "
                    "amber for long, it is called slow.",
                    queries=(
                        Query(
                            expr=f"{STEP_MEAN}{{{RUN}}}\n/ {STEP_BASELINE}{{{RUN}}}",
                            legend=WHOSE,
                        ),
                    ),
                    unit="percentunit",
                    limits=((None, GREEN), (SLOWER, AMBER)),
                    banded=True,
                ),
                BoardPanel(
                    title="Quantiles of a step",
                    about="Half of the steps, and 99 of 100, take no longer. Close "
                    "together is good.",
                    queries=(
                        *(
                            Query(
                                expr=f"histogram_quantile({part}, sum by (instance, run, le) (rate(trainwarden_step_duration_seconds_bucket{{{RUN}}}[$__rate_interval])))",
                                legend=f"{WHOSE} {part}",
                            )
                            for part in (0.5, 0.99)
                        ),
                    ),
                    unit="s",
                ),
                BoardPanel(
                    title="Steps a second",
                    about="Steady is good.",
                    queries=(
                        Query(
                            expr=f"sum by (instance, run) (rate(trainwarden_step_duration_seconds_count{{{RUN}}}[$__rate_interval]))",
                            legend=WHOSE,
                        ),
                        Query(
                            expr=f"sum by (instance, run) (rate(trainwarden_step_duration_seconds_sum{{{RUN}}}[$__rate_interval]))",
                            legend=f"{WHOSE}: part of the time",
                        ),
                    ),
                ),
                BoardPanel(
                    title="Advice",
                    about="What makes the run slower than it need be, as measured. Empty is "
                    "good; `trainwarden explain` says what to do.",
                    empty_because="nothing is known that makes the run slow",
                    kind=Kind.TIMELINE,
                    width=12,
                    queries=(
                        Query(
                            expr=f"max by (instance, run, kind) (trainwarden_advisory{{{RUN}}}) == 1",
                            legend=f"{WHOSE} {{{{kind}}}}",
                        ),
                    ),
                    names={"1": ("yes", AMBER)},
                    limits=((None, GREY), (1.0, AMBER)),
                ),
                BoardPanel(
                    title="Slices a batch",
                    about="1: the batch is worked through whole, which is fastest.",
                    queries=(
                        Query(
                            expr=f"max by (instance, run) (trainwarden_microbatch_slices{{{RUN}}})",
                            legend=WHOSE,
                        ),
                    ),
                ),
                BoardPanel(
                    title="Samples a step",
                    about="Of an update (the batch) and of a slice. The batch should not "
                    "change.",
                    queries=(
                        Query(
                            expr=f"max by (instance, run) (trainwarden_effective_batch_samples{{{RUN}}})",
                            legend=f"{WHOSE} batch",
                        ),
                        Query(
                            expr=f"max by (instance, run) (trainwarden_microbatch_samples{{{RUN}}})",
                            legend=f"{WHOSE} slice",
                        ),
                    ),
                ),
                BoardPanel(
                    title="Planned",
                    about="Epochs, and steps of an epoch, of the current fit.",
                    queries=(
                        Query(
                            expr=f"max by (instance, run) (trainwarden_epochs_planned{{{RUN}}})",
                            legend=f"{WHOSE} epochs",
                        ),
                        Query(
                            expr=f"max by (instance, run) (trainwarden_steps_per_epoch{{{RUN}}})",
                            legend=f"{WHOSE} steps an epoch",
                        ),
                    ),
                ),
            ),
        ),
        BoardRow(
            "What went wrong",
            (
                BoardPanel(
                    title="Incidents by cause",
                    about="Attempts that ended badly. 0 is good; `trainwarden incidents` "
                    "has them one by one.",
                    queries=_by_cause("trainwarden_incidents_total"),
                ),
                BoardPanel(
                    title="Restarts by cause",
                    about="Restarts that were made necessary. 0 is good.",
                    queries=_by_cause("trainwarden_restarts_total"),
                ),
                BoardPanel(
                    title="Time of proofs",
                    about="Steps done again to prove that a resume continues to the bit.",
                    queries=(
                        Query(
                            expr=f"sum by (instance, run) (trainwarden_resume_proof_seconds_total{{{RUN}}})",
                            legend=WHOSE,
                        ),
                    ),
                    unit="s",
                ),
            ),
        ),
        *SNAPSHOT_ROWS,
    ),
)
