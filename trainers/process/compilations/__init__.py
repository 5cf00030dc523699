"""The compilations of XLA, kept from attempt to attempt of a job."""
