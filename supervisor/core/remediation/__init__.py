"""Remediation of a diagnosis: escalation plans, remedies, slices, back-off."""
