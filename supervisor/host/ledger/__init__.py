"""The ledger: one SQLite file for jobs, attempts and incidents."""
