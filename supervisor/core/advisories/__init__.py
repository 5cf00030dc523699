"""Advisories: what makes a run slower or larger than it need be, from what was measured.

``advisory``    one of them, as a value
``evidence``    what a rule looks at
``gpu_evidence``  what looks at the GPUs show together
``workspace_requests``  memory that was not given, out of a log
``next_peak``   what the phases of an epoch need, and whether the next one fits
``input_rules``, ``compile_rules``, ``gpu_rules``, ``output_rules``, ``slice_rules``,
``peak_rules``  a rule each kind
``rules``       all of them, as one table
"""
