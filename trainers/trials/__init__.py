"""A trial: some steps of the first ``fit`` under what the directive says, and no training."""
