"""What is kept of a run, in the ledger and beside it."""
