"""Trainwarden: a training run ends as if it never crashed, and tells you why it did.

The map; imports run downwards only, and contracts in ``pyproject.toml`` check that::

    api          the commands, from Python
    cli          the commands
    web          what is looked at in a browser: reports, the read-only page
    daemon       many jobs of many users: scheduler, control API
    runtime      the event loop; one run: the attempt that it follows, the launch gate
    host         what touches the machine: processes, launchers, GPUs, ledger, exporter
    core         values and pure functions: what happened, what it means, what to do
    wire         formats that outlive a process, shared with ``trainers``; no dependencies
    trainers     the training process: Keras and TensorFlow live there, and only there

Seven files to read first: this one; ``wire/messages/directive`` (what an attempt is told);
``core/lifecycle/table`` (the phases of a run; of a job: ``core/jobs/managed/job_lifecycle``);
``runtime/supervisor`` (one run, driven by ``runtime/event_loop``);
``core/diagnosis/diagnose`` (from evidence to a cause); ``core/remediation/remedy_table``
(from a cause to a remedy); ``trainers/fit/fit_run`` (one supervised ``fit``).

From a line in a log to the restart: ``host/telemetry/log_follower`` reads it,
``core/diagnosis/log_scanner`` finds its signature, ``runtime/attempts/evidence_collector`` adds
what else is known, ``core/diagnosis/diagnose`` names the cause,
``core/remediation/policy`` chooses the remedy, ``core/lifecycle/exit_handling`` turns it
into effects, and ``runtime/supervisor`` launches the next attempt.

This module imports nothing, so that any of them can be imported alone.
"""

__version__ = "0.1.0"
