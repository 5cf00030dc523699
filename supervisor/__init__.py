"""Trainwarden: a training run ends as if it never crashed, and tells you why it did.

The map, in the order of the flow (imports run from left to right only)::

    cli ─→ supervise ─→ host ─→ core
                          └──→ wire ←── trainers

- ``supervisor.core``: values and pure functions. What happened, what it means, what
  to do: the transition table, diagnosis, remedies, plans. No clock, no files.
- ``supervisor.host``: everything that touches the machine, one thing a file.
- ``supervisor.wire``: the formats that outlive a process: what the supervisor tells
  a training process and what that process leaves behind. Standard library only.
- ``supervisor.runtime.supervisor``: one run. Next event or deadline → step → effects;
  ``attempt_monitor`` its attempt, the ``launch_gate`` before the next, and ``status_facts`` how it stands;
  ``directive_builder``, ``run_recorder`` and ``signal_source`` are its tools.
- ``supervisor.runtime.foreground``: a job, its ledger row, and the loop over it.
- ``supervisor.daemon``: many jobs of many users in one loop, and what may be asked of it.
- ``supervisor.cli``: the commands.
- ``trainers``: the child side. TensorFlow lives there, and only there.

This module imports nothing, so that any of them can be imported alone.
"""

__version__ = "0.1.0"
