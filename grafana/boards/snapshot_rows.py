"""Snapshots on the dashboard of runs: on this machine, and beyond it."""

from grafana.boards.board import AMBER, GREEN, RED, RUN, BoardPanel, BoardRow, Query
from grafana.rules.recording_rules import SNAPSHOT_LATE

WHOSE = "{{instance}} {{run}}"
"""What a line of a run is called."""

SNAPSHOT_ROWS: tuple[BoardRow, ...] = (
    BoardRow(
        "Snapshots",
        (
            BoardPanel(
                title="Age of the newest snapshot",
                about="What a crash now costs, by tier. A saw-tooth is good; a line "
                "that only grows is not.",
                queries=(
                    Query(
                        expr=f"max by (instance, run, tier) (trainwarden_snapshot_age_seconds{{{RUN}}})",
                        legend=f"{WHOSE} {{{{tier}}}}",
                    ),
                    Query(
                        expr=f"max by (instance, run, tier) (trainwarden_snapshot_interval_seconds{{{RUN}}})",
                        legend=f"{WHOSE} {{{{tier}}}} planned",
                    ),
                    Query(
                        expr=f"max by (instance, run, tier) (trainwarden_snapshot_wait_seconds{{{RUN}}})",
                        legend=f"{WHOSE} {{{{tier}}}} without a new one",
                    ),
                ),
                unit="s",
            ),
            BoardPanel(
                title="Wait in planned intervals",
                about="How long it has trained without a new snapshot. Below 1 is good; "
                "above 3 it is called stale. No line: intervals are counted in steps.",
                queries=(
                    Query(
                        expr=f"{SNAPSHOT_LATE}{{{RUN}}}",
                        legend=f"{WHOSE} {{{{tier}}}}",
                    ),
                ),
                limits=((None, GREEN), (1.5, AMBER), (3.0, RED)),
            ),
            BoardPanel(
                title="Snapshots a minute",
                about="Completed, and failed. Failed should be 0.",
                queries=(
                    Query(
                        expr=f"60 * sum by (instance, run, tier) (rate(trainwarden_snapshots_total{{{RUN}}}[$__rate_interval]))",
                        legend=f"{WHOSE} {{{{tier}}}}",
                    ),
                    Query(
                        expr=f"60 * sum by (instance, run, tier) (rate(trainwarden_snapshot_failures_total{{{RUN}}}[$__rate_interval]))",
                        legend=f"{WHOSE} {{{{tier}}}} failed",
                    ),
                ),
            ),
            BoardPanel(
                title="Cost of a snapshot",
                about="How long the newest held up training, and until it was whole. "
                "Training is to be held up for 1 % of the time at most.",
                queries=(
                    Query(
                        expr=f"max by (instance, run, tier) (trainwarden_snapshot_stall_seconds{{{RUN}}})",
                        legend=f"{WHOSE} {{{{tier}}}} held up",
                    ),
                    Query(
                        expr=f"max by (instance, run, tier) (trainwarden_snapshot_duration_seconds{{{RUN}}})",
                        legend=f"{WHOSE} {{{{tier}}}} until whole",
                    ),
                ),
                unit="s",
                width=12,
            ),
            BoardPanel(
                title="Size of a snapshot",
                about="Of the newest of each tier.",
                queries=(
                    Query(
                        expr=f"max by (instance, run, tier) (trainwarden_snapshot_size_bytes{{{RUN}}})",
                        legend=f"{WHOSE} {{{{tier}}}}",
                    ),
                ),
                unit="bytes",
                width=12,
            ),
        ),
    ),
    BoardRow(
        "Beyond the machine",
        (
            BoardPanel(
                title="Snapshots sent a minute",
                about="To the remote tier of runs that have one: complete, and failed. "
                "Failed should be 0.",
                empty_because="no run sends snapshots elsewhere",
                queries=(
                    Query(
                        expr=f"60 * sum by (instance, run) (rate(trainwarden_remote_snapshots_total{{{RUN}}}[$__rate_interval]))",
                        legend=WHOSE,
                    ),
                    Query(
                        expr=f"60 * sum by (instance, run) (rate(trainwarden_remote_snapshot_failures_total{{{RUN}}}[$__rate_interval]))",
                        legend=f"{WHOSE} failed",
                    ),
                ),
            ),
            BoardPanel(
                title="Age of the newest one there",
                about="What losing the machine now costs. A saw-tooth is good; a line "
                "that only grows is not.",
                empty_because="no run sends snapshots elsewhere",
                queries=(
                    Query(
                        expr=f"max by (instance, run) (trainwarden_remote_snapshot_age_seconds{{{RUN}}})",
                        legend=WHOSE,
                    ),
                ),
                unit="s",
            ),
            BoardPanel(
                title="Bytes sent",
                about="To the remote tier, a second.",
                empty_because="no run sends snapshots elsewhere",
                queries=(
                    Query(
                        expr=f"sum by (instance, run) (rate(trainwarden_remote_snapshot_sent_bytes_total{{{RUN}}}[$__rate_interval]))",
                        legend=WHOSE,
                    ),
                ),
                unit="Bps",
            ),
        ),
    ),
)
