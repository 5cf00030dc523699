"""What to do about a diagnosis: escalation plans, remedies, slices, back-off."""
